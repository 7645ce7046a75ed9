package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if os.Getenv(roleVariable) != "" {
		err = runReplica(ctx)
	} else {
		var o options
		flag.IntVar(&o.operations, "operations", 300, "how many operations are open")
		flag.IntVar(&o.replicas, "replicas", 3, "how many replicas ask about them")
		flag.IntVar(&o.kills, "kills", 3, "how often a replica is killed")
		flag.DurationVar(&o.every, "every", 3*time.Second, "how long it is between two kills, about")
		flag.DurationVar(&o.limit, "limit", 10*time.Minute, "how long the whole may take")
		flag.Parse()
		if o.operations < 1 || o.replicas < 1 || o.kills < 0 || o.every <= 0 || o.limit <= 0 || flag.NArg() > 0 {
			flag.Usage()
			os.Exit(2)
		}
		err = run(ctx, o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}
