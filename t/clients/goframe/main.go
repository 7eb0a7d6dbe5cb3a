// GoFrame: contrib/registry/etcd.

package main

import (
	"context"
	"time"

	"github.com/gogf/gf/contrib/registry/etcd/v2"
	"github.com/gogf/gf/v2/net/gsvc"

	"nginx-etcd/clients/command"
)

type goframe struct {
	etcd       string
	service    string
	found      *etcd.Registry
	registries map[string]*etcd.Registry
}

func (g *goframe) describe(addresses string) *gsvc.LocalService {
	return &gsvc.LocalService{
		Name:      g.service,
		Endpoints: gsvc.NewEndpoints(addresses),
		Metadata:  gsvc.Metadata{},
	}
}

// Words: also=ADDRESS,... are further endpoints; all others are metadata.

func (g *goframe) Register(address string, options command.Options) error {
	addresses := address

	if also, ok := options["also"]; ok {
		addresses += "," + also
		delete(options, "also")
	}

	service := g.describe(addresses)

	for name, value := range options {
		service.Metadata[name] = value
	}

	registry := etcd.New(g.etcd, etcd.Option{KeepaliveTTL: 10 * time.Second})
	g.registries[address] = registry

	_, err := registry.Register(context.Background(), service)

	return err
}

func (g *goframe) Deregister(address string) error {
	return g.registries[address].Deregister(context.Background(),
		g.describe(address))
}

func (g *goframe) Resolve() (command.Instances, error) {
	services, err := g.found.Search(context.Background(), gsvc.SearchInput{
		Name: g.service,
	})
	instances := command.Instances{}

	for _, service := range services {
		for _, endpoint := range service.GetEndpoints() {
			instances[endpoint.String()] = 1
		}
	}

	return instances, err
}

func main() {
	command.Run(func(address, service string) (command.Registry, error) {
		return &goframe{address, service, etcd.New(address),
			map[string]*etcd.Registry{}}, nil
	})
}
