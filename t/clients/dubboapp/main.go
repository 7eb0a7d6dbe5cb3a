// Dubbo by application: dubbo-go's etcd service discovery.

package main

import (
	"encoding/json"
	"net"
	"strconv"
	"sync"
	"time"

	"dubbo.apache.org/dubbo-go/v3/common"
	"dubbo.apache.org/dubbo-go/v3/common/constant"
	"dubbo.apache.org/dubbo-go/v3/common/extension"
	"dubbo.apache.org/dubbo-go/v3/registry"
	_ "dubbo.apache.org/dubbo-go/v3/registry/etcdv3"

	"nginx-etcd/clients/command"
)

const (
	revision  = constant.ExportedServicesRevisionPropertyName
	endpoints = constant.ServiceInstanceEndpoints
	protocol  = "tri"
)

type dubbo struct {
	service   string
	open      func() (registry.ServiceDiscovery, error)
	discovery registry.ServiceDiscovery
	sync.Mutex
	instances map[string]*registry.DefaultServiceInstance
}

// The library has a session of one second.  If etcd or this process stands still
// for longer, its client is closed for good, registers nothing without an error,
// and finds nothing: the program does then what its next start would do.

func (d *dubbo) restart() error {
	discovery, err := d.open()
	if err != nil {
		return err
	}

	d.discovery = discovery

	for _, instance := range d.instances {
		if err := discovery.Register(instance); err != nil {
			return err
		}
	}

	return nil
}

func (d *dubbo) supervise() {
	for range time.Tick(time.Second) {
		d.Lock()

		if len(d.discovery.GetInstances(d.service)) < len(d.instances) {
			d.restart()
		}

		d.Unlock()
	}
}

// Words: healthy=false, enable=false, revision=TEXT; port=N is that of another
// protocol, and then the instance's own; all others are metadata.

func (d *dubbo) Register(address string, options command.Options) error {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}

	port, err := strconv.Atoi(text)
	if err != nil {
		return err
	}

	instance := &registry.DefaultServiceInstance{
		ID:          address,
		ServiceName: d.service,
		Host:        host,
		Port:        port,
		Enable:      options["enable"] != "false",
		Healthy:     options["healthy"] != "false",
		Metadata:    map[string]string{revision: "7b4c2d"},
	}

	for name, value := range options {
		switch name {
		case "enable", "healthy":
		case "port":
			other, err := strconv.Atoi(value)
			if err != nil {
				return err
			}

			ports, err := json.Marshal([]registry.Endpoint{
				{Port: other, Protocol: "dubbo"},
				{Port: port, Protocol: protocol},
			})
			if err != nil {
				return err
			}

			instance.Port = other
			instance.Metadata[endpoints] = string(ports)
		case "revision":
			instance.Metadata[revision] = value
		default:
			instance.Metadata[name] = value
		}
	}

	d.Lock()
	defer d.Unlock()

	register := d.discovery.Register

	if d.instances[address] != nil {
		register = d.discovery.Update
	}

	d.instances[address] = instance

	return register(instance)
}

func (d *dubbo) Deregister(address string) error {
	d.Lock()
	defer d.Unlock()

	instance := d.instances[address]
	delete(d.instances, address)

	if d.discovery.Unregister(instance) == nil {
		return nil
	}

	if err := d.restart(); err != nil {
		return err
	}

	return d.discovery.Unregister(instance)
}

// A consumer uses no instance of revision "0", which exports no service, and
// makes URLs of the others.  The default weight is that of its balancers.

func (d *dubbo) Resolve() (command.Instances, error) {
	discovery, err := d.open()
	if err != nil {
		return nil, err
	}

	defer discovery.Destroy()

	found := command.Instances{}
	service := &common.ServiceInfo{Name: d.service, Protocol: protocol}

	page := discovery.GetHealthyInstancesByPage(d.service, 0, 100, true)

	for _, data := range page.GetData() {
		instance := data.(registry.ServiceInstance)

		if !instance.IsEnable() || instance.GetMetadata()[revision] == "0" {
			continue
		}

		for _, url := range instance.ToURLs(service) {
			found[url.Location] = constant.DefaultWeight
		}
	}

	return found, nil
}

func main() {
	command.Run(func(etcd, service string) (command.Registry, error) {
		url, err := common.NewURL("etcdv3://"+etcd,
			common.WithParamsValue(constant.RegistryKey, constant.EtcdV3Key),
			common.WithParamsValue(constant.RegistryTimeoutKey, "5s"))
		if err != nil {
			return nil, err
		}

		d := &dubbo{
			service: service,
			open: func() (registry.ServiceDiscovery, error) {
				return extension.GetServiceDiscovery(url)
			},
			instances: map[string]*registry.DefaultServiceInstance{},
		}

		go d.supervise()

		return d, d.restart()
	})
}
