// Vitess: elections of its topology in etcd.

package main

import (
	"context"

	"vitess.io/vitess/go/vt/topo"
	"vitess.io/vitess/go/vt/topo/etcd2topo"

	"nginx-etcd/clients/command"
)

type registry struct {
	server   *etcd2topo.Server
	election string
	parts    map[string]topo.LeaderParticipation
}

// An instance takes part, and leads when those before it have left.

func (r *registry) Register(address string, _ command.Options) error {
	part, err := r.server.NewLeaderParticipation(r.election, address)
	if err != nil {
		return err
	}

	r.parts[address] = part
	go part.WaitForLeadership()

	return nil
}

func (r *registry) Deregister(address string) error {
	r.parts[address].Stop()

	return nil
}

func (r *registry) Resolve() (command.Instances, error) {
	asks, err := r.server.NewLeaderParticipation(r.election, "")
	if err != nil {
		return nil, err
	}

	leader, err := asks.GetCurrentLeaderID(context.Background())
	if err != nil || leader == "" {
		return nil, err
	}

	return command.Instances{leader: 1}, nil
}

func main() {
	command.Run(func(etcd, election string) (command.Registry, error) {
		server, err := etcd2topo.NewServer(etcd, "/vitess/global")

		return &registry{server, election, map[string]topo.LeaderParticipation{}},
			err
	})
}
