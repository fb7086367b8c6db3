package main

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/clientv3/concurrency"
)

const shownWithin = 30 * time.Second

// A candidate: it holds while it leads, and is asked what it knows of the election.
type election struct {
	*concurrency.Election
	value string
	shown chan string
	stop  context.CancelFunc
}

func newElection(session *concurrency.Session, prefix, value string) *election {
	return &election{Election: concurrency.NewElection(session, prefix), value: value, stop: func() {}}
}

// Campaign; if there is no leader yet, the first campaign of a process may take longer than patience.
func (e *election) acquire(patience time.Duration) (bool, error) {
	if leader, err := e.leader(); err != nil || leader == "nobody" {
		patience = 0
	}
	return limited(patience, func(ctx context.Context) error { return e.Campaign(ctx, e.value) })
}

func (e *election) release() error { return e.Resign(context.Background()) }

// What the election says of its leader: "leader VALUE", or "nobody".
func (e *election) leader() (string, error) {
	found, err := e.Leader(context.Background())
	if err == concurrency.ErrElectionNoLeader {
		return "nobody", nil
	}
	if err != nil {
		return "", err
	}
	return "leader " + string(found.Kvs[0].Value), nil
}

// Observe the election from now on; saw tells what was shown.
func (e *election) observe() {
	ctx, stop := context.WithCancel(context.Background())
	shown := make(chan string, 100)
	e.shown, e.stop = shown, stop
	go func() {
		for leader := range e.Observe(ctx) {
			shown <- string(leader.Kvs[0].Value)
		}
	}()
}

// Wait until the observation shows this value; what it showed before is skipped.
func (e *election) saw(value string) error {
	for {
		select {
		case shown := <-e.shown:
			if shown == value {
				return nil
			}
		case <-time.After(shownWithin):
			return fmt.Errorf("never shown: %s", value)
		}
	}
}
