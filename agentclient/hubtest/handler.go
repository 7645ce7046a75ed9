package hubtest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strings"

	"github.com/bailinghub/bailinghub-go/internal/mocknet"
)

const (
	maxHeaderBytes = 16 << 10 // as of the real Hub, which answers 431 above it
	maxRequestBody = 1 << 20

	agentAPI    = "/agent-api/"
	invocations = "/agent-api/v1/tool-invocations"
)

// An answer is the Hub's answer to a request.
type answer struct {
	status    int
	header    http.Header
	body      []byte
	sessionID string
}

func jsonAnswer(status int, v any) answer {
	return answer{status: status, header: hubHeader(), body: encode(v)}
}

func hubHeader() http.Header {
	return http.Header{
		"Content-Type":  {"application/json; charset=utf-8"},
		"Cache-Control": {"no-store"},
	}
}

type errorJSON struct {
	Error     string `json:"error"`
	Message   string `json:"message,omitempty"`
	Status    string `json:"status,omitempty"`
	RequestID string `json:"request_id,omitempty"`
}

// bare is an error without a message.
func bare(status int, code string) answer { return jsonAnswer(status, errorJSON{Error: code}) }

func (r *Refusal) answer() answer {
	switch r.Code {
	case "hub_paused":
		return jsonAnswer(r.Status, errorJSON{Error: r.Code, Status: "paused"})
	case "unauthorized":
		return bare(r.Status, r.Code)
	}
	e := errorJSON{Error: r.Code, Message: hubMessage}
	if r.Status != http.StatusInternalServerError {
		return jsonAnswer(r.Status, e)
	}
	// An error of the Hub itself has an id, by which its log names the request.
	requestID := randomUUID()
	if r.Code == "internal_error" {
		e = errorJSON{Error: r.Code, RequestID: requestID}
	}
	a := jsonAnswer(r.Status, e)
	a.header["X-Request-Id"] = []string{requestID}
	return a
}

// ServeHTTP answers as the Hub does. When the connection is to be lost it closes
// it, or panics with [http.ErrAbortHandler] where it cannot.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	h.active.Add(1)
	h.mu.Unlock()
	defer h.active.Done()

	var body []byte
	var lost error
	if r.Body != nil {
		body, lost = io.ReadAll(io.LimitReader(r.Body, maxRequestBody+1))
	}
	t := h.locate(r, body)
	h.mu.Lock()
	h.counts.add(t.kind)
	fault := h.fault(t.kind)
	h.touch()
	h.mu.Unlock()

	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.life, cancel)()

	var a answer
	ok := false
	if lost == nil {
		a, ok = h.reach(ctx, w, r, t, body, fault)
	}
	// The entry is written before the answer is sent, so that a client that has its
	// answer finds the entry.
	entry := LogEntry{Time: h.now(), Kind: t.kind, Method: r.Method, Path: t.path, SessionID: a.sessionID}
	if ok {
		entry.Status = a.status
	}
	h.record(entry)
	if !ok {
		mocknet.Lose(w)
	} else if !a.send(ctx, w, fault) {
		panic(http.ErrAbortHandler)
	}
}

// reach takes a request to the Hub and gives the answer. ok is false where the connection was
// lost before that.
func (h *Hub) reach(ctx context.Context, w http.ResponseWriter, r *http.Request, t target, body []byte, f Fault) (a answer, ok bool) {
	if !pause(ctx, f.Latency) || !f.Hold.wait(ctx, AtRequest) || f.Drop == DropRequest {
		return a, false
	}
	if f.Status >= 200 || f.Status == http.StatusSwitchingProtocols {
		a = answer{status: f.Status, header: hubHeader(), body: f.Body}
	} else {
		if f.Status != 0 {
			w.WriteHeader(f.Status)
		}
		if a, ok = h.answer(ctx, r, t, body); !ok {
			return a, false
		}
	}
	return a, f.Hold.wait(ctx, AtAnswer) && f.Drop != DropAnswer
}

// send writes the answer, chunked as the Hub does, and reports whether the
// connection is still good.
func (a answer) send(ctx context.Context, w http.ResponseWriter, f Fault) bool {
	header := w.Header()
	maps.Copy(header, a.header)
	for name, values := range f.Header {
		header.Del(name)
		if values != nil {
			header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if f.Rewrite != nil {
		a.body = f.Rewrite(a.body)
	}
	control := http.NewResponseController(w)
	write := func(b []byte) bool {
		_, err := w.Write(b)
		_ = control.Flush() // a writer that cannot flush sends the answer as a whole
		return err == nil || errors.Is(err, http.ErrBodyNotAllowed)
	}
	if f.ByteInterval > 0 {
		fast := write
		write = func(b []byte) bool {
			for i := range b {
				if !fast(b[i:i+1]) || !pause(ctx, f.ByteInterval) {
					return false
				}
			}
			return true
		}
	}

	w.WriteHeader(a.status)
	if f.Hold == nil && f.Drop == DropNothing && f.ByteInterval <= 0 && !f.Endless {
		return write(a.body)
	}
	_ = control.Flush()
	half := len(a.body) / 2
	if !write(a.body[:half]) || !f.Hold.wait(ctx, AtBody) || f.Drop == DropMidBody || !write(a.body[half:]) {
		return false
	}
	for f.Endless && len(a.body) > 0 {
		if !write(a.body) {
			return false
		}
	}
	return true
}

// headerBytes is about the size of a request's head on the wire.
func headerBytes(r *http.Request) int {
	n := len(r.Method) + len(r.URL.RequestURI()) + len("Host: ") + len(r.Host)
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v) + len(": \r\n")
		}
	}
	return n
}

// A target is what a request is about.
type target struct {
	path         string // below the Hub's prefix, dots resolved, not decoded
	outside      bool   // not below the prefix
	kind         RequestKind
	invocationID string
}

var invocationPath = regexp.MustCompile(`^` + invocations + `/([0-9a-f]{64})/(receipt|resume)$`)

// locate finds the target of a request. Its body tells the two kinds of requests
// to the token endpoint apart.
func (h *Hub) locate(r *http.Request, body []byte) target {
	whole := r.URL.EscapedPath()
	path, inside := strings.CutPrefix(whole, h.prefix)
	if !inside || h.prefix != "" && path != "" && path[0] != '/' {
		return target{path: whole, outside: true, kind: OtherRequest}
	}
	t := target{path: resolvePath(path), kind: OtherRequest}
	m := invocationPath.FindStringSubmatch(t.path)
	switch {
	case r.Method == http.MethodGet && t.path == invocations+"/inspection-capabilities":
		t.kind = CapabilitiesRequest
	case r.Method == http.MethodPost && t.path == invocations:
		t.kind = SubmitRequest
	case r.Method == http.MethodGet && m != nil && m[2] == "receipt":
		t.kind, t.invocationID = ReceiptRequest, m[1]
	case r.Method == http.MethodPost && m != nil && m[2] == "resume":
		t.kind, t.invocationID = ResumeRequest, m[1]
	case strings.HasPrefix(t.path, agentAuth):
		t.kind = loginKind(r.Method, t.path, body)
	}
	return t
}

// resolvePath does to a request path what the Hub's URL parser does: dot
// segments are resolved, and two slashes in front begin a host name, not a path.
func resolvePath(path string) string {
	if rest := strings.TrimLeft(path, "/"); len(path)-len(rest) >= 2 {
		_, path, _ = strings.Cut(rest, "/")
		path = "/" + path
	}
	return resolveDots(path)
}

// resolveDots takes the dot segments out of a path.
func resolveDots(path string) string {
	var out []string
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, s := range segments {
		last := i == len(segments)-1
		switch strings.ReplaceAll(strings.ToLower(s), "%2e", ".") {
		case "..":
			out = out[:max(0, len(out)-1)]
			fallthrough
		case ".":
			if last {
				out = append(out, "")
			}
		default:
			out = append(out, s)
		}
	}
	return "/" + strings.Join(out, "/")
}

// bearer is the token of a request, empty when it has none.
func bearer(r *http.Request) string {
	if m := bearerForm.FindStringSubmatch(r.Header.Get("Authorization")); m != nil {
		return m[1]
	}
	return ""
}

var bearerForm = regexp.MustCompile(`^(?i:bearer) ([^\s]+)$`)

// startPage is what a web application in front of an older Hub answers.
const startPage = "<!doctype html><title>Synthetic start page</title>\n"

func page(status int, contentType, body string) answer {
	return answer{status: status, header: http.Header{"Content-Type": {contentType}}, body: []byte(body)}
}

// answer decides what the Hub says. It reports false when the request ended
// while the Hub was still waiting for the business system.
func (h *Hub) answer(ctx context.Context, r *http.Request, t target, body []byte) (answer, bool) {
	if headerBytes(r) > maxHeaderBytes {
		// The work of the Hub's HTTP server: a status and nothing else.
		return answer{status: http.StatusRequestHeaderFieldsTooLarge, header: http.Header{"Date": nil, "Transfer-Encoding": {"identity"}}}, true
	}
	if t.outside {
		return page(http.StatusNotFound, "text/plain; charset=utf-8", "404 page not found\n"), true
	}
	h.mu.Lock()
	a, invocationID, run := h.decide(r, t, body, h.authenticate)
	h.mu.Unlock()
	if invocationID == "" {
		return a, true
	}
	run()
	result, ok := h.awaitResult(ctx, invocationID)
	done := jsonAnswer(http.StatusOK, result)
	done.sessionID = a.sessionID
	return done, ok
}

// decide is answer under the lock; authenticate finds the session of an access
// token. Of a submit or resume that the Hub accepted it returns the invocation
// and what remains to be done without the lock; then the answer knows the
// session only.
func (h *Hub) decide(r *http.Request, t target, body []byte, authenticate func(token string) (*session, *Refusal)) (a answer, invocationID string, run func()) {
	inspecting := t.kind == CapabilitiesRequest || t.kind == ReceiptRequest
	switch {
	case strings.HasPrefix(t.path, agentAuth):
		return h.login(r, t.path, body), "", nil
	case inspecting && h.inspection == InspectionAbsentWebPage:
		return page(http.StatusOK, "text/html; charset=utf-8", startPage), "", nil
	case !strings.HasPrefix(t.path, agentAPI):
		return bare(401, "unauthorized"), "", nil
	}
	s, refusal := authenticate(bearer(r))
	switch {
	case refusal != nil:
		return refusal.answer(), "", nil
	case h.broken[ToolService] && (s != nil || h.broken[ControlPlane]):
		return bare(503, "agent_tools_unavailable"), "", nil
	case s == nil:
		return bare(401, "unauthorized"), "", nil
	}
	defer func() { a.sessionID = s.ID }()

	switch {
	case t.kind == OtherRequest, inspecting && h.inspection == InspectionAbsent:
		return bare(404, "not_found"), "", nil
	case r.URL.RawQuery != "":
		refusal = refuse(400, "invalid_request")
	case t.kind == CapabilitiesRequest:
		version := h.schemaVersion()
		return jsonAnswer(http.StatusOK, capabilitiesJSON{capabilitiesSchema + version, receiptSchema + version, true}), "", nil
	case t.kind == ReceiptRequest:
		var receipt *receiptJSON
		if receipt, refusal = h.inspect(s, t.invocationID); refusal == nil {
			return jsonAnswer(http.StatusOK, receipt), "", nil
		}
	case t.kind == SubmitRequest:
		var op Submission
		if len(body) > maxRequestBody || json.Unmarshal(body, &op) != nil {
			refusal = refuse(400, "invalid_request")
			break
		}
		invocationID, run, refusal = h.submit(s, op)
	case t.kind == ResumeRequest:
		invocationID = t.invocationID
		run, refusal = h.resume(s, invocationID)
	}
	if refusal != nil {
		return refusal.answer(), "", nil
	}
	return answer{}, invocationID, run
}

// awaitResult waits while an operation is in flight, and returns its result as
// a receipt would show it. It reports false when the request ended first.
func (h *Hub) awaitResult(ctx context.Context, invocationID string) (*resultJSON, bool) {
	for {
		changed := h.Changed()
		r, _ := h.Record(invocationID)
		if !inFlight(r) {
			return project(r).Result, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, false
		}
	}
}
