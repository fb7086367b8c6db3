package main

import (
	"context"
	"fmt"
	"log"

	"go.etcd.io/etcd/clientv3" // with etcd's client 3.5 and later: go.etcd.io/etcd/client/v3
	"go.etcd.io/etcd/clientv3/concurrency"
)

func main() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(15))
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	ctx := context.Background()

	mutex := concurrency.NewMutex(session, "app/reports%2Fnightly")
	if err := mutex.Lock(ctx); err != nil {
		log.Fatal(err)
	}
	defer mutex.Unlock(ctx)

	own, err := client.Get(ctx, mutex.Key())
	if err != nil || len(own.Kvs) == 0 {
		log.Fatal("lost: ", err)
	}
	fmt.Println("held by Go under token", own.Kvs[0].CreateRevision)
}
