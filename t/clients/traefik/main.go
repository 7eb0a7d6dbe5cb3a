// Traefik: valkeyrie, the library of its key-value provider, writes the keys of
// a service, and Traefik's decoder reads them.

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/kvtools/etcdv3"
	"github.com/kvtools/valkeyrie"
	"github.com/kvtools/valkeyrie/store"
	"github.com/traefik/traefik/v3/pkg/config/kv"

	"nginx-etcd/clients/command"
)

const root = "traefik"

// What this program reads of Traefik's configuration, whose own types import
// all of Traefik.
type configuration struct {
	HTTP struct {
		Services map[string]struct {
			LoadBalancer struct {
				Servers []struct {
					URL          string
					Weight       *int
					PreservePath bool
				}
			}
		}
	}
}

type registry struct {
	store.Store
	service string
	numbers map[string]int
}

// What a server's keys begin with: each has a number.

func (r *registry) key(address string) string {
	if _, ok := r.numbers[address]; !ok {
		r.numbers[address] = len(r.numbers)
	}

	return fmt.Sprintf("%s/http/services/%s/loadBalancer/servers/%d/", root,
		r.service, r.numbers[address])
}

// The words are fields of the server.

func (r *registry) Register(address string, options command.Options) error {
	fields := map[string]string{
		"url": "http://" + address, "weight": "", "preservePath": "",
	}

	for name, value := range options {
		fields[name] = value
	}

	kept := &store.WriteOptions{TTL: 10 * time.Second, KeepAlive: true}

	for name, value := range fields {
		key := r.key(address) + name
		err := error(nil)

		if value != "" {
			err = r.Put(context.Background(), key, []byte(value), kept)
		} else if err = r.Delete(context.Background(),
			key); errors.Is(err, store.ErrKeyNotFound) {
			err = nil
		}

		if err != nil {
			return err
		}
	}

	return nil
}

func (r *registry) Deregister(address string) error {
	return r.DeleteTree(context.Background(), r.key(address))
}

func (r *registry) Resolve() (command.Instances, error) {
	instances := command.Instances{}

	pairs, err := r.List(context.Background(), root, nil)
	if errors.Is(err, store.ErrKeyNotFound) {
		return instances, nil
	} else if err != nil {
		return nil, err
	}

	found := &configuration{}
	if err = kv.Decode(pairs, found, root); err != nil {
		return nil, err
	}

	// A server without a weight has 1.

	for _, server := range found.HTTP.Services[r.service].LoadBalancer.Servers {
		weight := 1
		if server.Weight != nil {
			weight = *server.Weight
		}

		at, err := url.Parse(server.URL)
		if err != nil {
			return nil, err
		}

		instances[at.Host] = int64(weight)
	}

	return instances, nil
}

func main() {
	command.Run(func(etcd, service string) (command.Registry, error) {
		opened, err := valkeyrie.NewStore(context.Background(),
			etcdv3.StoreName, []string{etcd}, &etcdv3.Config{})

		return &registry{opened, service, map[string]int{}}, err
	})
}
