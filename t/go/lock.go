// Locks a mutex, by etcd's own client: lock ENDPOINT NAME prints the key when
// it has the lock, and unlocks on SIGINT.

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

	mutex := concurrency.NewMutex(session, os.Args[2])
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt)

	try(mutex.Lock(context.Background()))
	fmt.Println(mutex.Key())

	<-end

	try(mutex.Unlock(context.Background()))
	try(session.Close())
}
