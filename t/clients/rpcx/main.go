// rpcx: the etcd plugin of its servers, and what its client hands to a selector.

package main

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rcrowley/go-metrics"
	discovery "github.com/rpcxio/rpcx-etcd/client"
	"github.com/rpcxio/rpcx-etcd/serverplugin"
	"github.com/smallnest/rpcx/client"

	"nginx-etcd/clients/command"
)

const base = "rpcx"

type selector struct {
	sync.Mutex
	servers map[string]string
}

func (s *selector) Select(context.Context, string, string, any) string {
	return ""
}

func (s *selector) UpdateServer(servers map[string]string) {
	s.Lock()
	defer s.Unlock()
	s.servers = servers
}

type rpcx struct {
	etcd     []string
	service  string
	plugins  map[string]*serverplugin.EtcdV3RegisterPlugin
	selector *selector
}

// The words are the metadata.  The plugin writes calls and connections into it
// each second.

func (r *rpcx) Register(address string, options command.Options) error {
	plugin := r.plugins[address]

	if plugin == nil {
		plugin = &serverplugin.EtcdV3RegisterPlugin{
			ServiceAddress: "tcp@" + address,
			EtcdServers:    r.etcd,
			BasePath:       base,
			Metrics:        metrics.NewRegistry(),
			UpdateInterval: time.Second,
		}

		r.plugins[address] = plugin

		if err := plugin.Start(); err != nil {
			return err
		}
	}

	metadata := url.Values{}

	for name, value := range options {
		metadata.Set(name, value)
	}

	return plugin.Register(r.service, nil, metadata.Encode())
}

func (r *rpcx) Deregister(address string) error {
	return r.plugins[address].Unregister(r.service)
}

// The client leaves out inactive servers.  A server without a weight has 1.

func (r *rpcx) Resolve() (command.Instances, error) {
	r.selector.Lock()
	defer r.selector.Unlock()

	instances := command.Instances{}

	for server, metadata := range r.selector.servers {
		weight := int64(1)

		values, err := url.ParseQuery(metadata)
		if err != nil {
			return nil, err
		}

		if text := values.Get("weight"); text != "" {
			if weight, err = strconv.ParseInt(text, 10, 64); err != nil {
				return nil, err
			}
		}

		instances[strings.TrimPrefix(server, "tcp@")] = weight
	}

	return instances, nil
}

func main() {
	command.Run(func(etcd, service string) (command.Registry, error) {
		r := &rpcx{
			etcd:     []string{etcd},
			service:  service,
			plugins:  map[string]*serverplugin.EtcdV3RegisterPlugin{},
			selector: &selector{},
		}

		found, err := discovery.NewEtcdV3Discovery(base, service, r.etcd, true,
			nil)
		if err != nil {
			return nil, err
		}

		c := client.NewXClient(service, client.Failfast, client.SelectByUser,
			found, client.DefaultOption)
		c.SetSelector(r.selector)

		return r, nil
	})
}
