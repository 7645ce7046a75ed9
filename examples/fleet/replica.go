package main

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"os/exec"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/registry/sqlstore"
)

var quiet = slog.New(slog.DiscardHandler)

// What a replica is told by its environment, as in a deployment.
const (
	roleVariable     = "FLEET_REPLICA"
	databaseVariable = "FLEET_DATABASE"
	keyVariable      = "FLEET_KEY" // seals the logins; a deployment takes it from its secrets
)

// openStore opens the store of logins on a pool.
func openStore(ctx context.Context, pool *pgxpool.Pool, key []byte) (*sqlstore.Store, *sql.DB, error) {
	db := stdlib.OpenDBFromPool(pool)
	store, err := sqlstore.Open(ctx, db, sqlstore.PostgreSQL, sqlstore.WithKeys(key))
	if err != nil {
		return nil, nil, err
	}
	return store, db, nil
}

// runReplica is one process of the fleet. It works until it is killed.
func runReplica(ctx context.Context) error {
	key, err := hex.DecodeString(os.Getenv(keyVariable))
	if err != nil {
		return fmt.Errorf("%s is not hexadecimal", keyVariable)
	}
	pool, err := pgxpool.New(ctx, os.Getenv(databaseVariable))
	if err != nil {
		return err
	}
	defer pool.Close()
	store, db, err := openStore(ctx, pool, key)
	if err != nil {
		return err
	}
	defer db.Close()
	transport, err := host.New(store)
	if err != nil {
		return err
	}
	client, err := newClient(pool, &inspector{pool: pool, transport: transport, replica: os.Getenv(roleVariable)})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	fmt.Println("ready")
	<-ctx.Done()
	return client.StopAndCancel(context.WithoutCancel(ctx))
}

// replica is a process of the fleet as its parent sees it.
type replica struct {
	name    string
	command *exec.Cmd
}

func startReplica(name, database string, key []byte) (*replica, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command(program)
	command.Env = append(os.Environ(), roleVariable+"="+name, databaseVariable+"="+database, keyVariable+"="+hex.EncodeToString(key))
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		return nil, err
	}
	return &replica{name, command}, nil
}

// kill ends a replica as a crash of its machine would.
func (r *replica) kill() {
	_ = r.command.Process.Kill()
	_ = r.command.Wait()
}
