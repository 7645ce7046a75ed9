package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// openBrowser has the system open an address, and comes back at once. The
// channel is closed when what it started has ended, which it does with the
// context at the latest: that is the program that finds the browser, not the
// browser. It can write nowhere and reads nothing.
func openBrowser(ctx context.Context, address string) (<-chan struct{}, error) {
	for _, words := range openers() {
		path, err := exec.LookPath(words[0])
		if err != nil {
			continue
		}
		opener := exec.CommandContext(ctx, path, append(words[1:], address)...)
		apart(opener)
		if err := opener.Start(); err != nil {
			continue
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = opener.Wait() // it may fail: the address stands on the screen
		}()
		return done, nil
	}
	return nil, errors.New("this machine has nothing to open one with; it may run on any machine that reaches this one")
}

// openers are the commands that open an address, which follows them, the best
// first. Where there is no screen there are none.
func openers() [][]string {
	switch runtime.GOOS {
	case "windows":
		return [][]string{{"rundll32", "url.dll,FileProtocolHandler"}}
	case "darwin":
		return [][]string{{"open"}}
	}
	var all [][]string
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil && strings.Contains(strings.ToLower(string(kernel)), "microsoft") {
		all = append(all, []string{"wslview"}, []string{"rundll32.exe", "url.dll,FileProtocolHandler"})
	}
	if os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != "" {
		all = append(all, []string{"xdg-open"}, []string{"x-www-browser"})
	}
	return all
}
