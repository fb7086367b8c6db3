// A contender by Go's etcd client, told what to do on its standard input, line by line (see ../peers.py).
//
// Run as `mutex ADDRESS [SECONDS]`; one lease, of so many seconds, for each lock that is used.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
	recipe "go.etcd.io/etcd/contrib/recipes"
)

// How long a try that others stand in the way of waits: one that has to wait for them has failed by then, and
// one that does not have to, as a reader of etcd's own kind, may be on a machine that stands still.
const (
	triesFor    = 300 * time.Millisecond
	readsWithin = 3 * time.Second
)

// A lock of some kind: acquire waits for patience at most, and for ever if that is 0.
type lock interface {
	acquire(patience time.Duration) (bool, error)
	release() error
}

type peer struct {
	client   *clientv3.Client
	seconds  int
	session  *concurrency.Session
	prefix   string
	kind     string
	lock     lock
	election *election // the lock, if that is a candidate
}

type mutex struct{ *concurrency.Mutex }

func (m mutex) acquire(patience time.Duration) (bool, error) { return limited(patience, m.Lock) }

// Call what can be cancelled, with patience at most.
func limited(patience time.Duration, acquire func(context.Context) error) (bool, error) {
	ctx := context.Background()
	if patience > 0 {
		limited, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		ctx = limited
	}
	err := acquire(ctx)
	if err == context.DeadlineExceeded {
		return false, nil
	}
	return err == nil, err
}

func (m mutex) release() error { return m.Unlock(context.Background()) }

// One side of the read-write mutex, which knows no deadline: what it began goes on, and ends with its session.
type side struct {
	lock, unlock func() error
	session      *concurrency.Session
}

func (s side) acquire(patience time.Duration) (bool, error) {
	done := make(chan error, 1)
	go func() { done <- s.lock() }()
	if patience == 0 {
		err := <-done
		return err == nil, err
	}
	select {
	case err := <-done:
		return err == nil, err
	case <-time.After(patience):
		return false, s.session.Close()
	}
}

func (s side) release() error { return s.unlock() }

// Use a lock of a kind, with a session of its own; a candidate has a value.
func (p *peer) use(kind, prefix string, value []string) error {
	if p.election != nil {
		p.election.stop()
		p.election = nil
	}
	if p.session != nil {
		p.session.Close()
	}
	session, err := concurrency.NewSession(p.client, concurrency.WithTTL(p.seconds))
	if err != nil {
		return err
	}
	p.session, p.prefix, p.kind = session, prefix, kind
	both := recipe.NewRWMutex(session, prefix)
	switch kind {
	case "mutex":
		p.lock = mutex{concurrency.NewMutex(session, prefix)}
	case "read":
		p.lock = side{both.RLock, both.RUnlock, session}
	case "write":
		p.lock = side{both.Lock, both.Unlock, session}
	case "election":
		p.election = newElection(session, prefix, value[0])
		p.lock = p.election
	default:
		return fmt.Errorf("no kind of lock: %s", kind)
	}
	return nil
}

// The fencing token: the create revision of the one key below the prefix that has this session's lease.
func (p *peer) token() (int64, error) {
	found, err := p.client.Get(context.Background(), p.prefix+"/", clientv3.WithPrefix())
	if err != nil {
		return 0, err
	}
	for _, one := range found.Kvs {
		if one.Lease == int64(p.session.Lease()) {
			return one.CreateRevision, nil
		}
	}
	return 0, fmt.Errorf("no key of this session below %s", p.prefix)
}

func (p *peer) take(patience time.Duration) (string, error) {
	held, err := p.lock.acquire(patience)
	if err != nil || !held {
		return "busy", err
	}
	token, err := p.token()
	return fmt.Sprintf("held %d", token), err
}

// Take the lock if that needs no waiting: if no key stands in the way, however long that takes.
func (p *peer) try() (string, error) {
	found, err := p.client.Get(context.Background(), p.prefix+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return "", err
	}
	if found.Count == 0 {
		return p.take(0)
	}
	if p.kind == "read" {
		return p.take(readsWithin)
	}
	return p.take(triesFor)
}

// Add one to the number in a file, times over; only the lock protects it.
func (p *peer) count(path string, times int) error {
	for ; times > 0; times-- {
		if _, err := p.lock.acquire(0); err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		number, err := strconv.Atoi(string(text))
		if err != nil {
			return err
		}
		time.Sleep(time.Millisecond) // wide enough for another to fall in between
		if err := os.WriteFile(path, []byte(strconv.Itoa(number+1)), 0o600); err != nil {
			return err
		}
		if err := p.lock.release(); err != nil {
			return err
		}
	}
	return nil
}

func (p *peer) do(words []string) (string, error) {
	switch words[0] {
	case "use":
		return "ready", p.use(words[1], words[2], words[3:])
	case "acquire":
		return p.take(0)
	case "try":
		return p.try()
	case "release":
		return "released", p.lock.release()
	case "count":
		times, err := strconv.Atoi(words[2])
		if err != nil {
			return "", err
		}
		return "counted", p.count(words[1], times)
	case "proclaim":
		return "proclaimed", p.election.Proclaim(context.Background(), words[1])
	case "leader":
		return p.election.leader()
	case "observe":
		p.election.observe()
		return "observing", nil
	case "saw":
		return "seen", p.election.saw(words[1])
	}
	return "", fmt.Errorf("no command: %s", words[0])
}

func main() {
	client, err := clientv3.New(clientv3.Config{Endpoints: os.Args[1:2], DialTimeout: 10 * time.Second})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	one := &peer{client: client, seconds: 10}
	if len(os.Args) > 2 {
		if one.seconds, err = strconv.Atoi(os.Args[2]); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	fmt.Println("hello")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		said, err := one.do(strings.Fields(lines.Text()))
		if err != nil {
			said = "error " + err.Error()
		}
		fmt.Println(said)
	}
	if one.session != nil {
		one.session.Close()
	}
}
