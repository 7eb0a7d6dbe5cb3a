// Kitex: registry-etcd and its resolver.

package main

import (
	"context"
	"os"
	"strconv"
	"time"

	"github.com/cloudwego/kitex/pkg/registry"
	"github.com/cloudwego/kitex/pkg/utils"
	etcd "github.com/kitex-contrib/registry-etcd"
	"github.com/kitex-contrib/registry-etcd/retry"

	"nginx-etcd/clients/command"
)

type server struct {
	registry registry.Registry
	info     *registry.Info
}

type kitex struct {
	etcd    []string
	service string
	servers map[string]server
}

// Words: weight=N; all others are tags.

func (k *kitex) Register(address string, options command.Options) error {
	info := &registry.Info{
		ServiceName: k.service,
		Addr:        utils.NewNetAddr("tcp", address),
		Tags:        map[string]string{},
	}

	for name, value := range options {
		if name == "weight" {
			info.Weight, _ = strconv.Atoi(value)
		} else {
			info.Tags[name] = value
		}
	}

	// A registry serves one server.  It looks for its key by itself.

	registry, err := etcd.NewEtcdRegistryWithRetry(k.etcd, retry.NewRetryConfig(
		retry.WithObserveDelay(time.Second),
		retry.WithRetryDelay(time.Second)))
	if err != nil {
		return err
	}

	if known, ok := k.servers[address]; ok {
		if err := known.registry.Deregister(known.info); err != nil {
			return err
		}
	}

	k.servers[address] = server{registry, info}

	return registry.Register(info)
}

func (k *kitex) Deregister(address string) error {
	known := k.servers[address]
	delete(k.servers, address)

	return known.registry.Deregister(known.info)
}

func (k *kitex) Resolve() (command.Instances, error) {
	instances := command.Instances{}

	resolver, err := etcd.NewEtcdResolver(k.etcd)
	if err != nil {
		return nil, err
	}

	// Its error is that there is no instance.

	result, err := resolver.Resolve(context.Background(), k.service)
	if err != nil && err.Error() != "no instance remains for "+k.service {
		return nil, err
	}

	for _, instance := range result.Instances {
		instances[instance.Address().String()] = int64(instance.Weight())
	}

	return instances, nil
}

func main() {
	os.Setenv("KITEX_ETCD_REGISTRY_LEASE_TTL", "10")

	command.Run(func(etcd, service string) (command.Registry, error) {
		return &kitex{[]string{etcd}, service, map[string]server{}}, nil
	})
}
