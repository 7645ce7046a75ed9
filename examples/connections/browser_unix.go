//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// apart keeps a Ctrl-C in the terminal from reaching a program, and the browser
// that it starts.
func apart(program *exec.Cmd) { program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
