package hubtest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
)

const (
	maxHeaderBytes = 16 << 10 // as of the real Hub, which answers 431 above it
	maxRequestBody = 1 << 20

	agentAPI    = "/agent-api/"
	invocations = "/agent-api/v1/tool-invocations"
	tokenPath   = "/agent-auth/v1/token"
)

// An answer is what the Hub says to a request.
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
	case "internal_error":
		return jsonAnswer(r.Status, errorJSON{Error: r.Code, RequestID: randomUUID()})
	}
	return jsonAnswer(r.Status, errorJSON{Error: r.Code, Message: hubMessage})
}

// ServeHTTP answers as the Hub does. A connection that a fault loses ends in a
// panic with [http.ErrAbortHandler], which every server of net/http understands.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t, inside := h.locate(r)
	if !inside {
		http.NotFound(w, r)
		return
	}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	h.active.Add(1)
	defer h.active.Done()
	h.counts.add(t.kind)
	fault := h.fault(t.kind)
	h.touch()
	h.mu.Unlock()

	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.life, cancel)()

	entry := LogEntry{Kind: t.kind, Method: r.Method, Path: t.path}
	defer func() {
		entry.Time = h.now()
		h.record(entry)
	}()
	abort := func() {
		entry.Status = 0
		panic(http.ErrAbortHandler)
	}

	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequestBody+1))
	if err != nil || !pause(ctx, fault.Latency) || !fault.Hold.wait(ctx, AtRequest) || fault.Drop == DropRequest {
		abort()
	}
	var a answer
	switch {
	case headerBytes(r) > maxHeaderBytes:
		a = answer{status: http.StatusRequestHeaderFieldsTooLarge}
	case fault.Status >= 200 || fault.Status == http.StatusSwitchingProtocols:
		a = answer{status: fault.Status, header: hubHeader(), body: fault.Body}
	default:
		if fault.Status != 0 {
			w.WriteHeader(fault.Status)
		}
		if a, err = h.answer(ctx, r, t, body); err != nil {
			abort()
		}
	}
	entry.SessionID, entry.Status = a.sessionID, a.status
	if !fault.Hold.wait(ctx, AtAnswer) || fault.Drop == DropAnswer {
		abort()
	}
	if !a.send(ctx, w, fault) {
		abort()
	}
}

// send writes the answer, chunked as the Hub does, and reports whether the
// connection is still good.
func (a answer) send(ctx context.Context, w http.ResponseWriter, f Fault) bool {
	header := w.Header()
	for _, from := range []http.Header{a.header, f.Header} {
		for name, values := range from {
			if values == nil {
				header.Del(name)
				continue
			}
			header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if a.header == nil && f.Header == nil {
		// Turned away by the HTTP server itself: a status and nothing else.
		header["Date"] = nil
		header.Set("Transfer-Encoding", "identity")
	}
	if f.Rewrite != nil {
		a.body = f.Rewrite(a.body)
	}
	control := http.NewResponseController(w)
	// A writer that cannot flush, such as a test's own, just gets it whole.
	w.WriteHeader(a.status)
	_ = control.Flush()

	write := func(b []byte) bool {
		_, err := w.Write(b)
		_ = control.Flush()
		return err == nil || err == http.ErrBodyNotAllowed
	}
	slowly := func(b []byte) bool {
		if f.ByteInterval <= 0 {
			return ctx.Err() == nil && write(b)
		}
		for i := range b {
			if !write(b[i:i+1]) || !pause(ctx, f.ByteInterval) {
				return false
			}
		}
		return true
	}
	half := len(a.body) / 2
	if !slowly(a.body[:half]) || !f.Hold.wait(ctx, AtBody) || f.Drop == DropMidBody || !slowly(a.body[half:]) {
		return false
	}
	for f.Endless && len(a.body) > 0 {
		if !slowly(a.body) {
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
	path         string // dots resolved, not decoded
	kind         RequestKind
	invocationID string
}

var invocationPath = regexp.MustCompile(`^` + invocations + `/([0-9a-f]{64})/(receipt|resume)$`)

// locate finds the target of a request; inside is false when it is not below
// the Hub's path prefix.
func (h *Hub) locate(r *http.Request) (t target, inside bool) {
	path, inside := strings.CutPrefix(r.URL.EscapedPath(), h.prefix)
	if !inside || h.prefix != "" && path != "" && path[0] != '/' {
		return target{}, false
	}
	t = target{path: resolvePath(path), kind: OtherRequest}
	m := invocationPath.FindStringSubmatch(t.path)
	switch {
	case r.Method == http.MethodGet && t.path == invocations+"/inspection-capabilities":
		t.kind = CapabilitiesRequest
	case r.Method == http.MethodPost && t.path == invocations:
		t.kind = SubmitRequest
	case r.Method == http.MethodPost && t.path == tokenPath:
		t.kind = RefreshRequest
	case r.Method == http.MethodGet && m != nil && m[2] == "receipt":
		t.kind, t.invocationID = ReceiptRequest, m[1]
	case r.Method == http.MethodPost && m != nil && m[2] == "resume":
		t.kind, t.invocationID = ResumeRequest, m[1]
	}
	return t, true
}

// resolvePath does to a request path what the Hub's URL parser does: dot
// segments are resolved, and two slashes in front begin a host name, not a path.
func resolvePath(path string) string {
	if rest := strings.TrimLeft(path, "/"); len(path)-len(rest) >= 2 {
		_, path, _ = strings.Cut(rest, "/")
		path = "/" + path
	}
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

var bearerForm = regexp.MustCompile(`^(?i:bearer) ([^\s]+)$`)

// startPage is what a web application in front of an older Hub answers.
const startPage = "<!doctype html><title>Synthetic start page</title>\n"

// answer decides what the Hub says. It fails only when the request ended while
// the Hub was still waiting for the business system.
func (h *Hub) answer(ctx context.Context, r *http.Request, t target, body []byte) (answer, error) {
	if t.path == tokenPath {
		return h.token(r, body), nil
	}
	h.mu.Lock()
	inspecting := t.kind == CapabilitiesRequest || t.kind == ReceiptRequest
	if inspecting && h.inspection == InspectionAbsentWebPage {
		h.mu.Unlock()
		a := answer{status: 200, header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}, body: []byte(startPage)}
		return a, nil
	}
	s, a, record, run := h.decideAnswer(r, t, body, inspecting)
	h.mu.Unlock()
	if s != nil {
		a.sessionID = s.ID
	}
	if record == nil {
		return a, nil
	}
	run()
	result, err := h.awaitResult(ctx, record.InvocationID)
	if err != nil {
		return answer{}, err
	}
	a = jsonAnswer(http.StatusOK, result)
	a.sessionID = s.ID
	return a, nil
}

// decideAnswer is answer under the lock. For submit and resume it returns the
// record and what remains to be done without the lock.
func (h *Hub) decideAnswer(r *http.Request, t target, body []byte, inspecting bool) (s *session, a answer, record *Record, run func()) {
	unauthorized := bare(http.StatusUnauthorized, "unauthorized")
	if !strings.HasPrefix(t.path, agentAPI) {
		return nil, unauthorized, nil, nil
	}
	if m := bearerForm.FindStringSubmatch(r.Header.Get("Authorization")); m != nil {
		if h.broken[AuthStorage] {
			return nil, refuse(http.StatusInternalServerError, "internal_error").answer(), nil, nil
		}
		s = h.authenticate(m[1])
	}
	if h.broken[ToolService] && (s != nil || h.broken[ControlPlane]) {
		return s, bare(http.StatusServiceUnavailable, "agent_tools_unavailable"), nil, nil
	}
	if s == nil {
		return nil, unauthorized, nil, nil
	}
	if t.kind == OtherRequest || inspecting && h.inspection == InspectionAbsent {
		return s, bare(http.StatusNotFound, "not_found"), nil, nil
	}
	if r.URL.RawQuery != "" {
		return s, refuse(http.StatusBadRequest, "invalid_request").answer(), nil, nil
	}
	var refusal *Refusal
	switch t.kind {
	case CapabilitiesRequest:
		version := "v1"
		if h.inspection == InspectionNewer {
			version = "v2"
		}
		return s, jsonAnswer(http.StatusOK, capabilitiesJSON{capabilitiesSchema + version, receiptSchema + version, true}), nil, nil
	case ReceiptRequest:
		var receipt *receiptJSON
		if receipt, refusal = h.inspect(s, t.invocationID); refusal == nil {
			return s, jsonAnswer(http.StatusOK, receipt), nil, nil
		}
	case SubmitRequest:
		var op Submission
		if len(body) > maxRequestBody || json.Unmarshal(body, &op) != nil {
			refusal = refuse(http.StatusBadRequest, "invalid_request")
			break
		}
		record, run, refusal = h.submit(s, op)
	case ResumeRequest:
		record, run, refusal = h.resume(s, t.invocationID)
	}
	if refusal != nil {
		return s, refusal.answer(), nil, nil
	}
	return s, answer{}, record, run
}

// awaitResult waits while an operation is in flight, and returns its result as
// a receipt would show it.
func (h *Hub) awaitResult(ctx context.Context, invocationID string) (*resultJSON, error) {
	for {
		changed := h.Changed()
		r, ok := h.Record(invocationID)
		if !ok || !inFlight(r) {
			return project(r).Result, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// token answers the token endpoint.
func (h *Hub) token(r *http.Request, body []byte) answer {
	var in struct {
		GrantType    string `json:"grant_type"`
		ClientAppID  string `json:"client_app_id"`
		RefreshToken string `json:"refresh_token"`
	}
	switch {
	case r.Method != http.MethodPost:
		return bare(http.StatusNotFound, "not_found")
	case r.URL.RawQuery != "" || len(body) > maxRequestBody || json.Unmarshal(body, &in) != nil || in.ClientAppID == "" || in.RefreshToken == "":
		return refuse(http.StatusBadRequest, "invalid_request").answer()
	case in.GrantType != "refresh_token":
		return refuse(http.StatusBadRequest, "unsupported_grant_type").answer()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken[AuthStorage] {
		return refuse(http.StatusInternalServerError, "internal_error").answer()
	}
	s, refusal := h.rotate(in.ClientAppID, in.RefreshToken)
	if refusal != nil {
		return refusal.answer()
	}
	now := h.now()
	a := jsonAnswer(http.StatusOK, tokenJSON{
		TokenType:        "Bearer",
		AccessToken:      s.AccessToken,
		RefreshToken:     s.RefreshToken,
		ExpiresIn:        int64(s.AccessExpiresAt.Sub(now).Seconds()),
		RefreshExpiresIn: int64(s.RefreshExpiresAt.Sub(now).Seconds()),
		SessionID:        s.ID,
		ClientAppID:      s.ClientID,
	})
	a.sessionID = s.ID
	return a
}

type tokenJSON struct {
	TokenType        string `json:"token_type"`
	AccessToken      string `json:"access_token"`
	RefreshToken     string `json:"refresh_token"`
	ExpiresIn        int64  `json:"expires_in"`
	RefreshExpiresIn int64  `json:"refresh_expires_in"`
	SessionID        string `json:"session_id"`
	ClientAppID      string `json:"client_app_id"`
}
