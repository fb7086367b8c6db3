// A contender by Go's etcd client, told what to do on its standard input, line by line (see ../worker.py).
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

const sessionSeconds = 10

// CLOCK_MONOTONIC, which all processes of a machine share.
func now() int64 {
	var at syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&at)), 0)
	return at.Nano()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func number(text string) int64 {
	found, err := strconv.ParseInt(text, 10, 64)
	must(err)
	return found
}

func cycles(mutex *concurrency.Mutex, count, pause int64) string {
	said := make([]string, 0, count)
	for ; count > 0; count-- {
		if pause > 0 {
			time.Sleep(time.Duration(pause))
		}
		began := now()
		must(mutex.Lock(context.Background()))
		must(mutex.Unlock(context.Background()))
		said = append(said, strconv.FormatInt(now()-began, 10))
	}
	return strings.Join(said, ",")
}

func contend(mutex *concurrency.Mutex, start, end, hold int64) string {
	var said []string
	time.Sleep(time.Duration(start - now()))
	for now() < end {
		must(mutex.Lock(context.Background()))
		got := now()
		if hold > 0 {
			time.Sleep(time.Duration(hold))
		}
		said = append(said, fmt.Sprintf("[%d,%d]", got, now()))
		must(mutex.Unlock(context.Background()))
	}
	return strings.Join(said, ",")
}

func main() {
	client, err := clientv3.New(clientv3.Config{Endpoints: os.Args[1:2], DialTimeout: 10 * time.Second})
	must(err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(sessionSeconds))
	must(err)
	var mutex *concurrency.Mutex
	fmt.Println(`"hello"`)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "use":
			mutex = concurrency.NewMutex(session, "bench/"+words[1])
			fmt.Println(`"ready"`)
		case "cycles":
			fmt.Println("[" + cycles(mutex, number(words[1]), number(words[2])) + "]")
		case "contend":
			fmt.Println("[" + contend(mutex, number(words[1]), number(words[2]), number(words[3])) + "]")
		}
	}
	session.Close()
}
