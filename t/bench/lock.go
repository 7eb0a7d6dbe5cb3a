// Locks by etcd's own client, for t/bench/lock.pl:
//
//	lock SECONDS CLIENTS KEYS [-tls CA CERT KEY] ENDPOINT...
//
// So many clients, each with a session of its own, lock and unlock mutexes:
// KEYS is "one" for all of them, or "own".  Prints how many times that was, and
// the seconds it took.

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/ioutil"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

func try(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func secure(ca string, cert string, key string) *tls.Config {
	text, err := ioutil.ReadFile(ca)
	try(err)

	pair, err := tls.LoadX509KeyPair(cert, key)
	try(err)

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)

	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	try(err)

	clients, err := strconv.Atoi(os.Args[2])
	try(err)

	keys, rest := os.Args[3], os.Args[4:]
	config := clientv3.Config{DialTimeout: 5 * time.Second}

	if rest[0] == "-tls" {
		config.TLS = secure(rest[1], rest[2], rest[3])
		rest = rest[4:]
	}

	config.Endpoints = rest
	client, err := clientv3.New(config)
	try(err)

	sessions := make([]*concurrency.Session, clients)

	for i := range sessions {
		sessions[i], err = concurrency.NewSession(client)
		try(err)
	}

	var cycles int64
	var group sync.WaitGroup

	begin := time.Now()
	end := begin.Add(time.Duration(seconds * float64(time.Second)))

	for i, session := range sessions {
		name := "/locks/go/"

		if keys == "own" {
			name += strconv.Itoa(i)
		}

		group.Add(1)

		go func(session *concurrency.Session, name string) {
			defer group.Done()

			for time.Now().Before(end) {
				mutex := concurrency.NewMutex(session, name)

				try(mutex.Lock(context.Background()))
				try(mutex.Unlock(context.Background()))
				atomic.AddInt64(&cycles, 1)
			}
		}(session, name)
	}

	group.Wait()
	fmt.Println(cycles, time.Since(begin).Seconds())

	for _, session := range sessions {
		try(session.Close())
	}
}
