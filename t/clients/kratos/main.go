// Kratos: contrib/registry/etcd, the resolver of its gRPC clients, and the
// weights that its balancers give to what that finds.

package main

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"time"

	etcd "github.com/go-kratos/kratos/contrib/registry/etcd/v2"
	"github.com/go-kratos/kratos/v2/registry"
	"github.com/go-kratos/kratos/v2/selector"
	"github.com/go-kratos/kratos/v2/selector/node/direct"
	"github.com/go-kratos/kratos/v2/transport/grpc/resolver/discovery"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"

	"nginx-etcd/clients/command"
)

// conn takes what the resolver hands to a connection.

type conn struct {
	resolver.ClientConn
	sync.Mutex
	addresses []resolver.Address
}

func (c *conn) UpdateState(state resolver.State) error {
	c.Lock()
	defer c.Unlock()
	c.addresses = state.Addresses

	return nil
}

func (c *conn) ReportError(error) {}

func (c *conn) ParseServiceConfig(string) *serviceconfig.ParseResult {
	return nil
}

type instance struct {
	registry *etcd.Registry
	service  *registry.ServiceInstance
}

type kratos struct {
	client    *clientv3.Client
	service   string
	instances map[string]instance
	conn      *conn
}

// Words: also=ENDPOINT,... are further endpoints, id=ID another id than the
// address; all others are metadata.

func (k *kratos) Register(address string, options command.Options) error {
	service := &registry.ServiceInstance{
		ID:        address,
		Name:      k.service,
		Version:   "v1",
		Metadata:  map[string]string{},
		Endpoints: []string{"http://127.0.0.1:1", "grpc://" + address},
	}

	for name, value := range options {
		switch name {
		case "id":
			service.ID = value
		case "also":
			service.Endpoints = append(service.Endpoints,
				strings.Split(value, ",")...)
		default:
			service.Metadata[name] = value
		}
	}

	// One lease is all that a registry has.

	registry := etcd.New(k.client, etcd.RegisterTTL(10*time.Second))
	k.instances[address] = instance{registry, service}

	return registry.Register(context.Background(), service)
}

func (k *kratos) Deregister(address string) error {
	known := k.instances[address]

	return known.registry.Deregister(context.Background(), known.service)
}

func (k *kratos) Resolve() (command.Instances, error) {
	k.conn.Lock()
	defer k.conn.Unlock()

	instances := command.Instances{}

	for _, address := range k.conn.addresses {
		service := address.Attributes.Value("rawServiceInstance")
		node := selector.NewNode("grpc", address.Addr,
			service.(*registry.ServiceInstance))

		instances[address.Addr] =
			int64((&direct.Builder{}).Build(node).Weight())
	}

	return instances, nil
}

func main() {
	command.Run(func(address, service string) (command.Registry, error) {
		client, err := clientv3.New(clientv3.Config{
			Endpoints: []string{address},
		})
		if err != nil {
			return nil, err
		}

		conn := &conn{}
		builder := discovery.NewBuilder(etcd.New(client),
			discovery.WithInsecure(true), discovery.PrintDebugLog(false))

		_, err = builder.Build(resolver.Target{
			URL: url.URL{Scheme: "discovery", Path: "/" + service},
		}, conn, resolver.BuildOptions{})

		return &kratos{client, service, map[string]instance{}, conn}, err
	})
}
