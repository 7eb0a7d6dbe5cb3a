// Holds something by etcd's own client until SIGINT, when it gives it up:
//
//     hold elect ENDPOINT NAME VALUE   wins an election, and prints VALUE then
//     hold lock ENDPOINT NAME          locks a mutex, and prints its key then

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

// until it is given up by the function that is returned

func take(session *concurrency.Session) func(context.Context) error {
	name := os.Args[3]

	if os.Args[1] == "lock" {
		mutex := concurrency.NewMutex(session, name)

		try(mutex.Lock(context.Background()))
		fmt.Println(mutex.Key())

		return mutex.Unlock
	}

	election := concurrency.NewElection(session, name)

	try(election.Campaign(context.Background(), os.Args[4]))
	fmt.Println(os.Args[4])

	return election.Resign
}

func main() {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{os.Args[2]},
	})
	try(err)

	session, err := concurrency.NewSession(client, concurrency.WithTTL(60))
	try(err)

	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt)

	give := take(session)

	<-end

	try(give(context.Background()))
	try(session.Close())
}
