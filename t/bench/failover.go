// A watch by etcd's own client, for t/bench/failover.pl: prints
//
//	connected NANOSECONDS            an answer to a watch
//	event NANOSECONDS REVISION       the first event of a response
//
// SIGUSR1 makes it watch through another member.

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/clientv3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

type method struct{}

type handler struct{}

func (handler) TagRPC(ctx context.Context,
	info *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, method{}, info.FullMethodName)
}

func (handler) HandleRPC(ctx context.Context, s stats.RPCStats) {
	name, _ := ctx.Value(method{}).(string)

	if _, ok := s.(*stats.InHeader); ok && strings.HasSuffix(name, "/Watch") {
		fmt.Printf("connected %d\n", time.Now().UnixNano())
	}
}

func (handler) TagConn(ctx context.Context,
	info *stats.ConnTagInfo) context.Context {
	return ctx
}

func (handler) HandleConn(ctx context.Context, s stats.ConnStats) {
}

// Ends when the watch is canceled, and returns the next revision.

func watch(client *clientv3.Client, key string, revision int64,
	again chan os.Signal) int64 {

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	channel := client.Watch(clientv3.WithRequireLeader(ctx), key,
		clientv3.WithRev(revision))

	for {
		select {

		case <-again:
			return revision

		case response, ok := <-channel:
			if !ok || response.Err() != nil {
				return revision
			}

			if len(response.Events) > 0 {
				first := response.Events[0].Kv.ModRevision

				fmt.Printf("event %d %d\n", time.Now().UnixNano(), first)
				revision = response.Header.Revision + 1
			}
		}
	}
}

func main() {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            os.Args[2:],
		DialTimeout:          2 * time.Second,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		DialOptions: []grpc.DialOption{
			grpc.WithStatsHandler(handler{}),
		},
	})

	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGUSR1)

	for revision := int64(0); ; {
		revision = watch(client, os.Args[1], revision, again)
		time.Sleep(time.Millisecond)
	}
}
