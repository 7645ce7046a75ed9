package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/host/journal"
	"github.com/bailinghub/bailinghub-go/registry"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "mcp:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mcp", flag.ContinueOnError)
	folder := flags.String("registry", "", "the folder with the logins (default: that of this machine's agent clients)")
	file := flags.String("journal", "", "the journal of operations (default: operations.jsonl in that folder)")
	address := flags.String("http", "", "serve streamable HTTP on this loopback address, such as 127.0.0.1:8080, in place of stdio")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *folder == "" {
		found, err := registry.DefaultDir(os.Getenv("BAILINGHUB_AGENT_CLIENT_STORAGE_NAMESPACE"))
		if err != nil {
			return err
		}
		*folder = found
	}
	if *file == "" {
		*file = filepath.Join(*folder, "operations.jsonl")
	}
	if os.Getenv("BAILINGHUB_ALLOW_FILE_CREDENTIAL_STORE") != "true" {
		return errors.New("logins in this folder are plain files; BAILINGHUB_ALLOW_FILE_CREDENTIAL_STORE=true in the environment lets this program read them")
	}
	store, err := registry.OpenDir(*folder, registry.AllowPlainCredentials())
	if err != nil {
		return err
	}
	operations, err := journal.OpenFile(*file)
	if err != nil {
		return err
	}
	defer operations.Close()
	transport, err := host.New(store)
	if err != nil {
		return err
	}
	server := newServer(&service{operations: operations, transport: transport})
	if *address == "" {
		return server.Run(ctx, &mcp.StdioTransport{})
	}
	return serveHTTP(ctx, server, *address)
}

// serveHTTP serves a loopback address alone: whoever reaches the server can read
// what is known of every operation.
func serveHTTP(ctx context.Context, server *mcp.Server, address string) error {
	listener, err := listenLoopback(address)
	if err != nil {
		return err
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	serving := &http.Server{Handler: http.NewCrossOriginProtection().Handler(handler), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = serving.Close() })
	fmt.Fprintf(os.Stderr, "serving http://%s\n", listener.Addr())
	if err := serving.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return ctx.Err()
}

func listenLoopback(address string) (net.Listener, error) {
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("--http needs an address such as 127.0.0.1:8080: %w", err)
	}
	if ip := net.ParseIP(name); ip == nil || !ip.IsLoopback() {
		return nil, errors.New("--http serves a loopback address only, such as 127.0.0.1:8080 or [::1]:8080")
	}
	return net.Listen("tcp", address)
}
