// Package server starts private database servers for a test: PostgreSQL, MariaDB
// and PgBouncer from the system's binaries, in temporary folders, on 127.0.0.1, as
// a user that is not root.
package server

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver of MariaDB
	_ "github.com/jackc/pgx/v5/stdlib" // that of PostgreSQL and PgBouncer
	_ "modernc.org/sqlite"             // and that of SQLite
)

// startLimit is how long a server may take to start, or to stop.
const startLimit = 60 * time.Second

// Server is a database server that runs, or was stopped for a while.
type Server struct {
	// Driver and Source are the arguments for sql.Open.
	Driver, Source string
	// Dir has all files of the server: its data and its log.
	Dir string

	command func() *exec.Cmd
	fast    syscall.Signal // stops the server without waiting for its clients
	running *exec.Cmd
	output  *os.File
}

// Open opens the database and waits until it answers.
func (s *Server) Open() (*sql.DB, error) {
	db, err := sql.Open(s.Driver, s.Source)
	if err != nil {
		return nil, err
	}
	return db, s.wait(db)
}

func (s *Server) wait(db *sql.DB) error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w; see %s", s.Driver, err, s.output.Name())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Start starts a server that was stopped. It does not wait until the server
// answers.
func (s *Server) Start() error {
	s.running = s.command()
	s.running.Stdout, s.running.Stderr = s.output, s.output
	return s.running.Start()
}

// Stop ends the server as a crash would: without waiting for its clients.
func (s *Server) Stop() error {
	if s.running == nil {
		return nil
	}
	err := s.running.Process.Signal(s.fast)
	if err != nil {
		return err
	}
	timer := time.AfterFunc(startLimit, func() { _ = s.running.Process.Kill() })
	defer timer.Stop()
	if err := s.running.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return err
	}
	s.running = nil
	return nil
}

// Close stops the server and removes its files.
func (s *Server) Close() error {
	return errors.Join(s.Stop(), s.output.Close(), os.RemoveAll(s.Dir))
}

// unprivileged gives the user that the servers run as: the caller. Where that is
// root, which PostgreSQL refuses, it gives the first of names that the system has.
func unprivileged(names ...string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range names {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(found.Uid, 10, 32)
		if err != nil {
			continue
		}
		gid, err := strconv.ParseUint(found.Gid, 10, 32)
		if err != nil {
			continue
		}
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return nil, fmt.Errorf("none of the users %s is there to run a server as", strings.Join(names, ", "))
}

// prepare makes the folder of a server.
func prepare(name string, as *syscall.SysProcAttr) (*Server, error) {
	dir, err := os.MkdirTemp("", "bailinghub-"+name+"-")
	if err != nil {
		return nil, err
	}
	if as != nil {
		if err := os.Chown(dir, int(as.Credential.Uid), int(as.Credential.Gid)); err != nil {
			return nil, err
		}
	}
	output, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	return &Server{Dir: dir, output: output, fast: syscall.SIGKILL}, nil
}

// freePort gives a port of 127.0.0.1 that nobody listens on now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// binary finds a program in the folders where distributions install it.
func binary(name string, folders ...string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, folder := range append(folders, "/usr/sbin", "/usr/local/sbin") {
		found, _ := filepath.Glob(filepath.Join(folder, name))
		if len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", fmt.Errorf("%s is not installed", name)
}

func run(as *syscall.SysProcAttr, name string, args ...string) error {
	command := exec.Command(name, args...)
	command.SysProcAttr, command.Dir = as, "/"
	out, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, bytes.TrimSpace(out))
	}
	return nil
}

// PostgreSQL starts a private cluster.
func PostgreSQL() (*Server, error) {
	const folders = "/usr/lib/postgresql/*/bin"
	initdb, err := binary("initdb", folders)
	if err != nil {
		return nil, err
	}
	postgres, err := binary("postgres", folders)
	if err != nil {
		return nil, err
	}
	as, err := unprivileged("postgres", "nobody")
	if err != nil {
		return nil, err
	}
	s, err := prepare("postgresql", as)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(s.Dir, "data")
	if err := run(as, initdb, "--pgdata", data, "--username", "tester", "--auth", "trust", "--no-sync", "--encoding", "UTF8"); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s.Driver, s.Source = "pgx", fmt.Sprintf("postgres://tester@127.0.0.1:%d/postgres?sslmode=disable&connect_timeout=10", port)
	s.fast = syscall.SIGQUIT // immediate shutdown
	s.command = func() *exec.Cmd {
		command := exec.Command(postgres, "-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-k", s.Dir, "-c", "max_connections=300", "-c", "log_statement=all", "-c", "log_parameter_max_length_on_error=-1")
		command.SysProcAttr, command.Dir = as, "/"
		return command
	}
	return s, s.Start()
}

// PgBouncer starts a connection pooler in transaction mode in front of a
// PostgreSQL server.
func PgBouncer(behind *Server) (*Server, error) {
	pgbouncer, err := binary("pgbouncer")
	if err != nil {
		return nil, err
	}
	as, err := unprivileged("postgres", "nobody")
	if err != nil {
		return nil, err
	}
	s, err := prepare("pgbouncer", as)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	_, address, _ := strings.Cut(behind.Source, "127.0.0.1:")
	serverPort, _, _ := strings.Cut(address, "/")
	config := filepath.Join(s.Dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
postgres = host=127.0.0.1 port=%s dbname=postgres user=tester
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 500
ignore_startup_parameters = extra_float_digits
`, serverPort, port)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, err
	}
	s.Driver, s.Source = "pgx", fmt.Sprintf("postgres://tester@127.0.0.1:%d/postgres?sslmode=disable&connect_timeout=10&default_query_exec_mode=exec", port)
	s.command = func() *exec.Cmd {
		command := exec.Command(pgbouncer, config)
		command.SysProcAttr, command.Dir = as, "/"
		return command
	}
	return s, s.Start()
}

// MariaDB starts a private server, in a time zone in which clocks are set back
// soon: its local time does not tell which of two hours it is.
func MariaDB() (*Server, error) {
	mariadbd, err := binary("mariadbd")
	if err != nil {
		return nil, err
	}
	install, err := binary("mariadb-install-db")
	if err != nil {
		return nil, err
	}
	as, err := unprivileged("mysql", "nobody")
	if err != nil {
		return nil, err
	}
	s, err := prepare("mariadb", as)
	if err != nil {
		return nil, err
	}
	data, socket := filepath.Join(s.Dir, "data"), filepath.Join(s.Dir, "socket")
	if err := run(as, install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db"); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s.Driver, s.Source = "mysql", fmt.Sprintf("root@tcp(127.0.0.1:%d)/mysql?timeout=10s", port)
	s.command = func() *exec.Cmd {
		command := exec.Command(mariadbd, "--no-defaults", "--datadir="+data, "--socket="+socket, "--bind-address=127.0.0.1", "--port="+strconv.Itoa(port), "--max-connections=300", "--innodb-flush-log-at-trx-commit=1", "--general-log", "--general-log-file="+filepath.Join(s.Dir, "general.log"), "--skip-name-resolve")
		command.SysProcAttr, command.Dir = as, "/"
		command.Env = append(os.Environ(), "TZ="+setBack(time.Now()))
		return command
	}
	return s, s.Start()
}

// setBack gives a time zone, in the form of POSIX, whose clocks go back by an
// hour at 50 minutes after now.
func setBack(now time.Time) string {
	end := now.UTC().Add(110 * time.Minute) // as the clocks have it before
	day := end.YearDay() - 1
	return fmt.Sprintf("STD0DST-1,%d,%d/%s", (day+180)%365, day, end.Format(time.TimeOnly))
}

// SQLite gives a database file. There is no server.
func SQLite() (*Server, error) {
	s, err := prepare("sqlite", nil)
	if err != nil {
		return nil, err
	}
	s.Driver, s.Source = "sqlite", "file:"+filepath.Join(s.Dir, "registry.db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"
	s.command = func() *exec.Cmd { return exec.Command("true") }
	return s, s.Start()
}
