// go-micro: its etcd registry.  A service of go-micro registers again and again;
// this program does so each second.

package main

import (
	"errors"
	"sync"
	"time"

	"github.com/go-micro/plugins/v4/registry/etcd"
	"go-micro.dev/v4/registry"

	"nginx-etcd/clients/command"
)

const (
	ttl      = 10 * time.Second
	interval = time.Second
)

type micro struct {
	registry registry.Registry
	service  string
	sync.Mutex
	services map[string]*registry.Service
}

func (m *micro) repeat() {
	for range time.Tick(interval) {
		m.Lock()

		for _, service := range m.services {
			m.registry.Register(service, registry.RegisterTTL(ttl))
		}

		m.Unlock()
	}
}

// Words: also=ADDRESS is another node; all others are metadata of nodes.

func (m *micro) Register(address string, options command.Options) error {
	m.Lock()
	defer m.Unlock()

	metadata := map[string]string{"registry": "etcd", "server": "grpc"}
	addresses := []string{address}
	service := &registry.Service{
		Name:     m.service,
		Version:  "latest",
		Metadata: map[string]string{"of": "service"},
		Endpoints: []*registry.Endpoint{{
			Name:    "Greeter.Hello",
			Request: &registry.Value{Name: "Request", Type: "Request"},
		}},
	}

	for name, value := range options {
		if name == "also" {
			addresses = append(addresses, value)
		} else {
			metadata[name] = value
		}
	}

	for _, address := range addresses {
		service.Nodes = append(service.Nodes, &registry.Node{
			Id:       m.service + "-" + address,
			Address:  address,
			Metadata: metadata,
		})
	}

	m.services[address] = service

	return m.registry.Register(service, registry.RegisterTTL(ttl))
}

func (m *micro) Deregister(address string) error {
	m.Lock()
	defer m.Unlock()

	service := m.services[address]
	delete(m.services, address)

	return m.registry.Deregister(service)
}

func (m *micro) Resolve() (command.Instances, error) {
	instances := command.Instances{}

	services, err := m.registry.GetService(m.service)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return nil, err
	}

	for _, service := range services {
		for _, node := range service.Nodes {
			instances[node.Address] = 1
		}
	}

	return instances, nil
}

func main() {
	command.Run(func(address, service string) (command.Registry, error) {
		micro := &micro{
			registry: etcd.NewRegistry(registry.Addrs(address)),
			service:  service,
			services: map[string]*registry.Service{},
		}

		go micro.repeat()

		return micro, nil
	})
}
