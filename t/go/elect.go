// Campaigns in an election, by etcd's own client: elect ENDPOINT NAME VALUE
// prints VALUE when it has won, and resigns on SIGINT.

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

func try(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func main() {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{os.Args[1]},
	})
	try(err)

	session, err := concurrency.NewSession(client, concurrency.WithTTL(60))
	try(err)

	election := concurrency.NewElection(session, os.Args[2])
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt)

	try(election.Campaign(context.Background(), os.Args[3]))
	fmt.Println(os.Args[3])

	<-end

	try(election.Resign(context.Background()))
	try(session.Close())
}
