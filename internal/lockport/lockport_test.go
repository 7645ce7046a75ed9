package lockport_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/bailinghub/bailinghub-go/internal/lockport"
	"github.com/bailinghub/bailinghub-go/internal/namedlock"
)

func TestNamesAndPorts(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../testdata/registry.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		LockPorts []struct {
			Key  string
			Port int
		} `json:"lock_ports"`
	}
	if err := json.Unmarshal(data, &vectors); err != nil || len(vectors.LockPorts) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	const folder = "/home/agent/.config/bailinghub"
	named := map[string]bool{lockport.Registry(folder): true, lockport.Login(folder, "conn_"+strings.Repeat("0", 32)): true}
	for _, vector := range vectors.LockPorts {
		if got := namedlock.Port(vector.Key); got != vector.Port {
			t.Errorf("the port of %s is %d, want %d", vector.Key, got, vector.Port)
		}
		if !named[vector.Key] {
			t.Errorf("no lock has the name %s", vector.Key)
		}
	}
}

func TestQuiet(t *testing.T) {
	t.Parallel()
	path := lockport.Quiet("/base", "folder", "conn_a", "conn_b")
	ports := map[int]bool{}
	for _, name := range []string{lockport.Registry(path), lockport.Login(path, "conn_a"), lockport.Login(path, "conn_b")} {
		ports[namedlock.Port(name)] = true
	}
	if !strings.HasPrefix(path, "/base") || !strings.HasSuffix(path, "/folder") || len(ports) != 3 {
		t.Errorf("path %s with the ports %v", path, ports)
	}
	for port := range ports {
		if port < 10000 || port >= 32768 {
			t.Errorf("port %d", port)
		}
	}
}
