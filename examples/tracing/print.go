package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/bailinghub/bailinghub-go/examples/internal/cli"
)

// printer is an exporter for people: it prints a span that is beneath none, and
// what was beneath it, once that has ended. The program looks at what became of
// its output: an error of an exporter goes to a log of OpenTelemetry's own.
type printer struct {
	to *cli.Output

	mu      sync.Mutex
	beneath map[oteltrace.SpanID][]trace.ReadOnlySpan
}

// ExportSpans implements [trace.SpanExporter].
func (p *printer) ExportSpans(_ context.Context, spans []trace.ReadOnlySpan) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.beneath == nil {
		p.beneath = map[oteltrace.SpanID][]trace.ReadOnlySpan{}
	}
	for _, span := range spans {
		if parent := span.Parent(); parent.IsValid() {
			p.beneath[parent.SpanID()] = append(p.beneath[parent.SpanID()], span)
		} else {
			p.print(span, "")
		}
	}
	return nil
}

// Shutdown implements [trace.SpanExporter].
func (p *printer) Shutdown(context.Context) error { return nil }

func (p *printer) print(span trace.ReadOnlySpan, indent string) {
	id := span.SpanContext().SpanID()
	took := span.EndTime().Sub(span.StartTime()).Round(10 * time.Microsecond)
	fmt.Fprintf(p.to, "%-24s %-12s %10v\n", indent+span.Name(), said(span), took)
	beneath := p.beneath[id]
	delete(p.beneath, id)
	slices.SortFunc(beneath, func(a, b trace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	for _, child := range beneath {
		p.print(child, indent+"  ")
	}
}

// said is what came of the span: the status of an answer, or how far the
// operation got.
func said(span trace.ReadOnlySpan) string {
	for _, a := range span.Attributes() {
		switch a.Key {
		case "http.response.status_code":
			return fmt.Sprint(a.Value.AsInt64())
		case attribute.Key("bailinghub.progress"):
			return a.Value.AsString()
		}
	}
	return span.Status().Description
}
