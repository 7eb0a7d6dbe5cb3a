// SkyDNS and CoreDNS: records as CoreDNS has them, and what its etcd plugin
// answers.  The application keeps the lease.

package main

import (
	"context"
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/etcd"
	"github.com/coredns/coredns/plugin/etcd/msg"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"nginx-etcd/clients/command"
)

const (
	prefix = "skydns"
	usual  = 100 // the weight of a record without one
)

type registry struct {
	client *clientv3.Client
	domain string
	plugin *etcd.Etcd
	sync.Mutex
	sessions map[string]*concurrency.Session
}

func (r *registry) key(address string) string {
	name := strings.NewReplacer(".", "-", ":", "-").Replace(address)

	return msg.Path(name+"."+r.domain, prefix)
}

// When the lease is lost, another one is taken.

func (r *registry) keep(address, record string) error {
	session, err := concurrency.NewSession(r.client, concurrency.WithTTL(10))
	if err != nil {
		return err
	}

	r.Lock()
	r.sessions[address] = session
	r.Unlock()

	go func() {
		<-session.Done()

		r.Lock()
		lost := r.sessions[address] == session
		r.Unlock()

		for lost && r.keep(address, record) != nil {
			time.Sleep(time.Second)
		}
	}()

	_, err = r.client.Put(context.Background(), r.key(address), record,
		clientv3.WithLease(session.Lease()))

	return err
}

// The words are fields of the record.

func (r *registry) Register(address string, options command.Options) error {
	var numbers [3]int

	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}

	for i, text := range []string{port, options["priority"],
		options["weight"]} {

		if text == "" {
			continue
		}

		if numbers[i], err = strconv.Atoi(text); err != nil {
			return err
		}
	}

	record, err := json.Marshal(msg.Service{
		Host: host, Port: numbers[0], Priority: numbers[1],
		Weight: numbers[2], Group: options["group"],
	})
	if err != nil {
		return err
	}

	return r.keep(address, string(record))
}

func (r *registry) Deregister(address string) error {
	r.Lock()
	delete(r.sessions, address)
	r.Unlock()

	_, err := r.client.Delete(context.Background(), r.key(address))

	return err
}

// A resolver asks the servers of the lowest priority first.

func (r *registry) Resolve() (command.Instances, error) {
	question := new(dns.Msg).SetQuestion(r.domain, dns.TypeSRV)

	records, err := r.plugin.Services(context.Background(),
		request.Request{Req: question}, false, plugin.Options{})
	if err != nil && !r.plugin.IsNameError(err) {
		return nil, err
	}

	instances := command.Instances{}
	first := 0

	for i, record := range records {
		if i == 0 || record.Priority < first {
			first, instances = record.Priority, command.Instances{}
		}

		if record.Priority > first {
			continue
		}

		if record.Weight == 0 {
			record.Weight = usual
		}

		instances[net.JoinHostPort(record.Host,
			strconv.Itoa(record.Port))] = int64(record.Weight)
	}

	return instances, nil
}

func main() {
	command.Run(func(at, domain string) (command.Registry, error) {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{at}})

		return &registry{
			client: client,
			domain: domain,
			plugin: &etcd.Etcd{
				Zones:      []string{domain},
				PathPrefix: prefix,
				Client:     client,
			},
			sessions: map[string]*concurrency.Session{},
		}, err
	})
}
