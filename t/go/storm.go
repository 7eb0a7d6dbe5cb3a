// Asks for registers behind locks, one request after another, until SIGTERM,
// as Contenders does, but has the locks by etcd's own client: a session and a
// mutex for each request.
//
//     storm ENDPOINT,... ADDRESS NAME NUMBER PREFIX REGISTER,... TTL LONG FILE
//
// ADDRESS is that of the registers, the key of a mutex begins with PREFIX and
// the name of its register.  NAME, NUMBER (as the nginx), LONG and FILE are
// those of Contenders' history.
//
// A session says that it is done after its lease may have ended: its client
// counts from the last answer, and a deposed leader of etcd may have given it.
// So a request is inside only while this program has proved the lease, and
// closes its connection to the register in time.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

const (
	wait   = 10 * time.Second       // for a lock
	call   = 250 * time.Millisecond // for an answer of etcd
	again  = 100 * time.Millisecond // between two proofs
	margin = 200 * time.Millisecond
	pause  = 30 * time.Millisecond
	short  = 0.01
	share  = 0.05 // of requests that stay long
)

type request struct {
	What     string  `json:"what"`
	Request  string  `json:"request"`
	Register string  `json:"register"`
	Nginx    int     `json:"nginx"`
	Sent     float64 `json:"sent"`
	Arrived  float64 `json:"arrived"`
	Status   int     `json:"status"`
	Error    string  `json:"error"`
	Left     int     `json:"left"`
	Reads    int     `json:"reads"`
}

type proof struct {
	token int64
	until time.Time
	err   error
}

var (
	client          *clientv3.Client
	address, prefix string
	ttl             int

	errGone = errors.New("the key is gone")
	errTerm = errors.New("etcd has elected a leader")
)

func try(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	try(err)

	return n
}

func now() float64 { return float64(time.Now().UnixNano()) / 1e9 }

func ended(err error) bool {
	return err == errGone || strings.Contains(err.Error(), "lease not found")
}

// The lease lasts for its TTL from the renewal on, if the leader that has
// renewed it led still when the key was read.

func prove(ctx context.Context, lease clientv3.LeaseID, key string) proof {
	ctx, cancel := context.WithTimeout(ctx, call)
	defer cancel()

	until := time.Now().Add(time.Duration(ttl)*time.Second - margin)

	renewed, err := client.KeepAliveOnce(ctx, lease)
	if err != nil {
		return proof{err: err}
	}

	read, err := client.Get(ctx, key)
	if err != nil {
		return proof{err: err}
	}

	if len(read.Kvs) == 0 {
		return proof{err: errGone}
	}

	if renewed.RaftTerm != read.Header.RaftTerm {
		return proof{err: errTerm}
	}

	return proof{token: read.Kvs[0].CreateRevision, until: until}
}

// Proofs, and the end of the lock, until the context ends.

func proofs(ctx context.Context, lease clientv3.LeaseID,
	key string) chan proof {

	found := make(chan proof)

	go func() {
		for ctx.Err() == nil {
			p := prove(ctx, lease, key)

			if p.err != nil && !ended(p.err) {
				continue
			}

			select {
			case found <- p:
				time.Sleep(again)
			case <-ctx.Done():
			}
		}
	}()

	return found
}

// The status that the register answers, or 0.

func answer(conn net.Conn, to chan int) {
	text, _ := io.ReadAll(conn)
	status := 0

	fmt.Sscanf(string(text), "HTTP/1.1 %d", &status)
	to <- status
}

func inside(session *concurrency.Session, key string, r *request,
	stay float64) (int, string) {

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	var until time.Time
	found := proofs(ctx, session.Lease(), key)
	answers := make(chan int, 1)
	end := time.Now().Add(time.Duration(ttl) * time.Second)

	for {
		select {
		case p := <-found:
			if p.err != nil {
				return 503, p.err.Error()
			}

			if until.IsZero() {
				conn, err := net.Dial("tcp", address)
				if err != nil {
					return 0, err.Error()
				}
				defer conn.Close()

				fmt.Fprintf(conn, "POST /%s HTTP/1.1\r\nX-Request: %s\r\n"+
					"X-Token: %d\r\nX-Stay: %.4f\r\n\r\n",
					r.Register, r.Request, p.token, stay)

				go answer(conn, answers)
			}

			until, end = p.until, p.until

		case status := <-answers:
			if time.Now().Before(end) {
				return status, ""
			}

			return 503, "answered too late"

		case <-session.Done():
			return 503, "the session is done"

		case <-time.After(time.Until(end)):
			return 503, "the lease is not proved"
		}
	}
}

func visit(r *request, stay float64) (int, string) {
	ctx, giveUp := context.WithTimeout(context.Background(), wait)
	defer giveUp()

	granted, err := client.Grant(ctx, int64(ttl))
	if err != nil {
		return 503, err.Error()
	}
	defer revoke(granted.ID)

	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl),
		concurrency.WithLease(granted.ID))
	if err != nil {
		return 503, err.Error()
	}
	defer session.Orphan()

	go func() {
		select {
		case <-session.Done():
			giveUp()
		case <-ctx.Done():
		}
	}()

	mutex := concurrency.NewMutex(session, prefix+r.Register)

	r.Sent = now()
	err = mutex.Lock(ctx)

	if ctx.Err() == context.DeadlineExceeded {
		return 423, "not got"
	}

	if err != nil {
		return 503, err.Error()
	}

	status, why := inside(session, mutex.Key(), r, stay)

	end, cancel := context.WithTimeout(context.Background(), call)
	defer cancel()

	mutex.Unlock(end)

	return status, why
}

// Nobody has to wait for the end of a lease that is given up: etcd is asked
// until it answers, or must have ended the lease.

func revoke(lease clientv3.LeaseID) {
	end := time.Now().Add(time.Duration(3*ttl) * time.Second)

	for time.Now().Before(end) {
		ctx, cancel := context.WithTimeout(context.Background(), call)
		_, err := client.Revoke(ctx, lease)
		cancel()

		if err == nil || ended(err) {
			return
		}
	}
}

func main() {
	var err error

	name, nginx := os.Args[3], number(os.Args[4])
	registers := strings.Split(os.Args[6], ",")

	address, prefix = os.Args[2], os.Args[5]
	ttl = number(os.Args[7])

	long, err := strconv.ParseFloat(os.Args[8], 64)
	try(err)

	history, err := os.OpenFile(os.Args[9],
		os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0644)
	try(err)

	client, err = clientv3.New(clientv3.Config{
		Endpoints: strings.Split(os.Args[1], ","),
	})
	try(err)

	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)

	parent := os.Getppid()
	rand.Seed(int64(os.Getpid()))

	for i := 1; os.Getppid() == parent; i++ {
		r := request{
			What:     "request",
			Request:  fmt.Sprintf("%s-%d", name, i),
			Register: registers[rand.Intn(len(registers))],
			Nginx:    nginx,
			Sent:     now(),
		}

		stay := rand.Float64() * short
		if rand.Float64() < share {
			stay = long
		}

		r.Status, r.Error = visit(&r, stay)
		r.Arrived = now()

		line, err := json.Marshal(r)
		try(err)

		_, err = history.Write(append(line, '\n'))
		try(err)

		select {
		case <-end:
			return
		case <-time.After(pause):
		}
	}
}
