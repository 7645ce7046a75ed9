package main

import (
	"fmt"
	"io"

	"github.com/bailinghub/bailinghub-go/examples/internal/screen"
)

// narrowest is the least width to write for.
const narrowest = 30

// A printer prints lines of at most so many columns.
type printer struct {
	to       io.Writer
	columns  int
	terminal bool  // what is printed can change in place
	err      error // the first that printing met
}

// passing prints a line that the next one takes the place of; nothing where
// that cannot be.
func (p *printer) passing(format string, args ...any) {
	if p.terminal {
		p.print("\r\x1b[K" + screen.Cut(fmt.Sprintf(format, args...), p.columns-1))
	}
}

// line prints a sentence, in as many lines as it needs.
func (p *printer) line(format string, args ...any) {
	p.print(screen.Paragraph("", "  ", fmt.Sprintf(format, args...), p.columns))
}

// labelled prints a text with a label, which takes so many columns.
func (p *printer) labelled(label string, columns int, text string) {
	p.print(screen.Labelled(label, columns, text, p.columns))
}

func (p *printer) print(text string) {
	if _, err := io.WriteString(p.to, text); err != nil && p.err == nil {
		p.err = err
	}
}
