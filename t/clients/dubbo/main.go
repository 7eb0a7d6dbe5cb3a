// Dubbo by interface: dubbo-go's etcd registry.

package main

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"dubbo.apache.org/dubbo-go/v3/cluster/loadbalance"
	"dubbo.apache.org/dubbo-go/v3/common"
	"dubbo.apache.org/dubbo-go/v3/common/constant"
	"dubbo.apache.org/dubbo-go/v3/common/extension"
	"dubbo.apache.org/dubbo-go/v3/protocol"
	"dubbo.apache.org/dubbo-go/v3/protocol/invocation"
	"dubbo.apache.org/dubbo-go/v3/registry"
	_ "dubbo.apache.org/dubbo-go/v3/registry/etcdv3"
	clientv3 "go.etcd.io/etcd/client/v3"

	"nginx-etcd/clients/command"
)

type dubbo struct {
	etcd       string
	service    string
	client     *clientv3.Client
	registries map[string]registry.Registry
}

func (d *dubbo) directory() string {
	return "/dubbo/" + d.service + "/" + constant.DefaultCategory + "/"
}

// Words: protocol=NAME; all others are parameters of the provider's URL.

func (d *dubbo) Register(address string, options command.Options) error {
	etcd, err := common.NewURL("etcdv3://"+d.etcd,
		common.WithParamsValue(constant.RegistryTimeoutKey, "5s"))
	if err != nil {
		return err
	}

	name := "tri"
	params := url.Values{
		constant.RegistryRoleKey: {strconv.Itoa(common.PROVIDER)},
		constant.InterfaceKey:    {d.service},
		constant.ApplicationKey:  {"clients"},
	}

	for option, value := range options {
		if option == "protocol" {
			name = value
		} else {
			params.Set(option, value)
		}
	}

	provider, err := common.NewURL(name+"://"+address+"/"+d.service,
		common.WithParams(params),
		common.WithMethods([]string{"SayHello", "SayBye"}))
	if err != nil {
		return err
	}

	registry, err := extension.GetRegistry("etcdv3", etcd)
	if err != nil {
		return err
	}

	d.registries[address] = registry

	return registry.Register(provider)
}

// The registry cannot unregister in etcd: its keys go when it is destroyed, and
// their leases end.

func (d *dubbo) Deregister(address string) error {
	d.registries[address].Destroy()

	return nil
}

// The registry's listener ignores deletions: the keys are read here.  A consumer
// makes a URL of each, and its balancers ask for the weight of an invoker.

func (d *dubbo) Resolve() (command.Instances, error) {
	found, err := d.client.Get(context.Background(), d.directory(),
		clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}

	instances := command.Instances{}

	for _, kv := range found.Kvs {
		url, err := common.NewURL(strings.TrimPrefix(string(kv.Key),
			d.directory()))
		if err != nil {
			return nil, err
		}

		instances[url.Location] = loadbalance.GetWeight(
			protocol.NewBaseInvoker(url),
			invocation.NewRPCInvocation("SayHello", nil, nil))
	}

	return instances, nil
}

func main() {
	command.Run(func(etcd, service string) (command.Registry, error) {
		client, err := clientv3.New(clientv3.Config{
			Endpoints: []string{etcd},
		})

		return &dubbo{etcd, service, client,
			map[string]registry.Registry{}}, err
	})
}
