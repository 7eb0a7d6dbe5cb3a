// Takes a mutex of etcd's own client again and again, until SIGINT, and goes to
// a register meanwhile, see t/lib/Register.pm:
//
//     contend ENDPOINT URL WHO NAME
//
// Prints a line of JSON for each request, as t/lib/Contenders.pm does.  Every
// fifth time the session ends instead of the hold.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"os/signal"
	"path"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

const (
	ttl   = 2
	stay  = 0.01
	again = 5
)

func try(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "failed:", err)
		os.Exit(1)
	}
}

func seconds() float64 {
	return float64(time.Now().UnixNano()) / 1e9
}

// as a holder with that token

func visit(url, who string, token int64) {
	request, err := http.NewRequest("POST", url, nil)
	try(err)

	request.Close = true
	request.Header.Set("X-Request", who)
	request.Header.Set("X-Token", fmt.Sprint(token))
	request.Header.Set("X-Stay", fmt.Sprintf("%.4f", rand.Float64()*stay))

	sent := seconds()
	response, err := http.DefaultClient.Do(request)
	try(err)
	response.Body.Close()

	line, err := json.Marshal(map[string]interface{}{
		"what":     "request",
		"request":  who,
		"register": path.Base(url),
		"sent":     sent,
		"arrived":  seconds(),
		"status":   response.StatusCode,
		"left":     0,
	})
	try(err)
	fmt.Println(string(line))
}

func main() {
	url, who, name := os.Args[2], os.Args[3], os.Args[4]
	ctx := context.Background()

	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{os.Args[1]},
	})
	try(err)

	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt)

	var session *concurrency.Session

	for i := 1; len(end) == 0; i++ {
		if session == nil {
			session, err = concurrency.NewSession(client,
				concurrency.WithTTL(ttl))
			try(err)
		}

		mutex := concurrency.NewMutex(session, name)
		try(mutex.Lock(ctx))

		found, err := client.Get(ctx, mutex.Key())
		try(err)

		if len(found.Kvs) == 1 {
			visit(url, fmt.Sprintf("%s-%d", who, i),
				found.Kvs[0].CreateRevision)
		}

		if i%again == 0 {
			try(session.Close())
			session = nil
			continue
		}

		try(mutex.Unlock(ctx))
	}

	if session != nil {
		try(session.Close())
	}
}
