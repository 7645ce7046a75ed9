//go:build linux

package host_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/paired"
	"github.com/bailinghub/bailinghub-go/registry"
)

// BenchmarkFolder measures what an inspection through a folder costs beside one
// through Memory, and what 256 connections cost beside one; the two take turns
// within one run, and the figures are medians over 41 pairs. Wanted are at most
// 80 µs more, and a ratio of at most 1.05.
//
//	go test -run '^$' -bench Folder -benchtime 1x ./host
func BenchmarkFolder(b *testing.B) {
	f := newField(b)
	ctx := context.Background()
	login, err := f.store.Credentials(ctx, f.original.ConnectionKey)
	f.must(err)
	folder := func(connections int) func() {
		dir := openFolder(b, folderFor(b, registry.Descriptor{HubURL: login.HubURL, ClientAppID: login.ClientAppID, Workspace: login.Workspace}))
		for n := range connections {
			login := login
			if n > 0 {
				login.Workspace = fmt.Sprint("workspace-", n)
			}
			connection, err := dir.Register(ctx, registry.Descriptor{HubURL: login.HubURL, ClientAppID: login.ClientAppID, Workspace: login.Workspace},
				registry.WithAlias(fmt.Sprint("connection ", n)))
			f.must(err)
			f.must(dir.SaveCredentials(ctx, connection.Key, login))
		}
		return f.host(dir)
	}
	memory, one, many := f.host(f.store), folder(1), folder(registry.MaxConnections)
	<-time.After(2100 * time.Millisecond) // what is younger is read every time
	for _, comparison := range []struct {
		name           string
		subject, floor func()
	}{
		{"1 connection over Memory", one, memory},
		{"256 connections over Memory", many, memory},
		{"256 connections over 1", many, one},
	} {
		b.Run(comparison.name, func(b *testing.B) {
			for b.Loop() {
				result := paired.Compare(41, 200, comparison.subject, comparison.floor)
				b.ReportMetric(result.Ratio, "ratio")
				b.ReportMetric(float64((result.Subject-result.Floor).Nanoseconds())/1e3, "µs-more")
				b.ReportMetric(float64(result.Subject.Nanoseconds())/1e3, "µs/inspection")
			}
		})
	}
}
