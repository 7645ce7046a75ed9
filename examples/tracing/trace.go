package main

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/receipt"
)

// newClient gives an HTTP client that makes a span of each request.
func newClient(base http.RoundTripper, provider trace.TracerProvider) *http.Client {
	return &http.Client{Transport: otelhttp.NewTransport(base,
		otelhttp.WithTracerProvider(provider),
		otelhttp.WithSpanNameFormatter(spanName),
		otelhttp.WithPropagators(propagation.NewCompositeTextMapPropagator()), // none: the Hub gets no trace ids
	)}
}

// spanName has no ids in it, so that spans of one kind have one name.
func spanName(_ string, r *http.Request) string {
	switch {
	case r.Method == http.MethodPost:
		return "refresh the session"
	case strings.HasSuffix(r.URL.Path, "/receipt"):
		return "read the receipt"
	default:
		return "negotiate"
	}
}

// inspect is an inspection with a span around it, beneath the one of ctx where
// there is one. An error says its code there; its text is safe, too.
func inspect(ctx context.Context, provider trace.TracerProvider, transport *host.Transport, original host.Original) (*receipt.Receipt, error) {
	ctx, span := provider.Tracer("agent host").Start(ctx, "inspect an original",
		trace.WithAttributes(attribute.String("bailinghub.invocation_id", original.InvocationID)))
	defer span.End()
	observed, err := transport.InspectInvocation(ctx, original)
	if err != nil {
		span.SetStatus(codes.Error, string(feedback.CodeOf(err)))
		return nil, err
	}
	span.SetAttributes(attribute.String("bailinghub.progress", string(observed.Progress())))
	return observed, nil
}
