// gRPC: etcd's package naming/endpoints.  The application keeps the lease.

package main

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/client/v3/naming/endpoints"

	"nginx-etcd/clients/command"
)

type registry struct {
	client  *clientv3.Client
	service string
	manager endpoints.Manager
	sync.Mutex
	sessions map[string]*concurrency.Session
}

func (r *registry) key(address string) string {
	return r.service + "/" + address
}

// When the lease is lost, another one is taken.

func (r *registry) keep(address string, metadata map[string]string) error {
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

		for lost && r.keep(address, metadata) != nil {
			time.Sleep(time.Second)
		}
	}()

	return r.manager.AddEndpoint(context.Background(), r.key(address),
		endpoints.Endpoint{Addr: address, Metadata: metadata},
		clientv3.WithLease(session.Lease()))
}

// The words are the metadata.

func (r *registry) Register(address string, options command.Options) error {
	return r.keep(address, options)
}

func (r *registry) Deregister(address string) error {
	r.Lock()
	delete(r.sessions, address)
	r.Unlock()

	return r.manager.DeleteEndpoint(context.Background(), r.key(address))
}

func (r *registry) Resolve() (command.Instances, error) {
	found, err := r.manager.List(context.Background())
	instances := command.Instances{}

	for _, endpoint := range found {
		instances[endpoint.Addr] = 1
	}

	return instances, err
}

func main() {
	command.Run(func(etcd, service string) (command.Registry, error) {
		client, err := clientv3.New(clientv3.Config{
			Endpoints: []string{etcd},
		})
		if err != nil {
			return nil, err
		}

		manager, err := endpoints.NewManager(client, service)

		return &registry{
			client:   client,
			service:  service,
			manager:  manager,
			sessions: map[string]*concurrency.Session{},
		}, err
	})
}
