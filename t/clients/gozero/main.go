// go-zero: discov's publisher and subscriber.

package main

import (
	"github.com/zeromicro/go-zero/core/discov"

	"nginx-etcd/clients/command"
)

type registry struct {
	etcd       []string
	service    string
	publishers map[string]*discov.Publisher
	subscriber *discov.Subscriber
}

// A process that starts again registers under another key, the lease's id.

func (r *registry) Register(address string, _ command.Options) error {
	publisher := discov.NewPublisher(r.etcd, r.service, address)
	r.publishers[address] = publisher

	return publisher.KeepAlive()
}

func (r *registry) Deregister(address string) error {
	r.publishers[address].Stop()

	return nil
}

func (r *registry) Resolve() (command.Instances, error) {
	instances := command.Instances{}

	for _, address := range r.subscriber.Values() {
		instances[address] = 1
	}

	return instances, nil
}

func main() {
	command.Run(func(etcd, service string) (command.Registry, error) {
		subscriber, err := discov.NewSubscriber([]string{etcd}, service)

		return &registry{
			etcd:       []string{etcd},
			service:    service,
			publishers: map[string]*discov.Publisher{},
			subscriber: subscriber,
		}, err
	})
}
