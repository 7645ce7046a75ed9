package hermestest

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	receiptsPath = "/v1/execution-receipts"
	auditPath    = "/v1/audit-logs"

	retryAfter = "60" // whatever is left of the minute
)

// ServeHTTP answers as the server does.
func (h *HermesX) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.requests = append(h.requests, r.Method+" "+r.URL.RequestURI())
	before := h.before
	h.mu.Unlock()
	if before != nil {
		before(r)
	}
	h.mux.ServeHTTP(w, r)
}

// routes has a mux outermost, as the server does: a path that is not clean is
// redirected, and one outside of the server's interfaces is not found, before
// anything else is looked at.
func (h *HermesX) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle(receiptsPath, h.guard(h.serveReceipts))
	mux.Handle(receiptsPath+"/", h.guard(h.serveReceipts))
	mux.Handle(auditPath, h.guard(h.serveAudit))
	elsewhere := h.guard(func(w http.ResponseWriter, r *http.Request, _ Key) { http.NotFound(w, r) })
	mux.Handle("/v1/", elsewhere)
	mux.Handle("/admin/", elsewhere)
	return mux
}

// guard names a request, finds its key, looks at the role and the rate, in this
// order, and logs what became of it.
func (h *HermesX) guard(next func(http.ResponseWriter, *http.Request, Key)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requestID := keptRequestID(r.Header.Get("X-Request-Id"))
		w.Header().Set("X-Request-Id", requestID)
		key, ok := h.authenticate(r)
		if !ok {
			http.Error(w, "authorization required", http.StatusUnauthorized)
			return
		}
		recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		switch {
		case !key.has(roleFor(r)):
			http.Error(recorder, "insufficient permissions", http.StatusForbidden)
		case !h.admit(w.Header(), key.TenantID):
			recorder.Header().Set("Retry-After", retryAfter)
			http.Error(recorder, "rate limit exceeded", http.StatusTooManyRequests)
		default:
			next(recorder, r, key)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		// What the request goes on with ends with its client.
		if !h.databaseDown && r.Context().Err() == nil {
			h.log(AuditEntry{
				TenantID: key.TenantID, UserID: key.UserID, Action: r.Method + " " + r.URL.Path, Detail: detail(r.URL.RawQuery),
				RequestID: requestID, StatusCode: recorder.status, SourceIP: r.RemoteAddr, UserAgent: r.UserAgent(),
			})
		}
	})
}

type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (w *statusRecorder) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

var requestIDForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// keptRequestID gives the request id of a caller, or another one in its place.
func keptRequestID(id string) string {
	if requestIDForm.MatchString(id) {
		return id
	}
	return randomHex(16)
}

// secretParameters are those of a query whose values are not logged.
var secretParameters = []string{"token", "key", "secret", "password", "api_key", "apikey", "access_token", "auth"}

func detail(query string) string {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "[redacted:parse_error]"
	}
	for name := range values {
		if slices.Contains(secretParameters, strings.ToLower(name)) {
			values.Set(name, "[REDACTED]")
		}
	}
	return values.Encode()
}

// storable reports whether the database takes a text: it has no NUL and no
// broken characters in any.
func storable(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

// authenticate looks for the key in the database, or in the configuration.
func (h *HermesX) authenticate(r *http.Request) (Key, bool) {
	secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	h.mu.Lock()
	defer h.mu.Unlock()
	key, known := h.keys[secret]
	return key, ok && known && (key.Static || !h.databaseDown)
}

func roleFor(r *http.Request) string {
	switch {
	case strings.HasPrefix(r.URL.Path, receiptsPath):
		return RoleAuditor
	case strings.HasPrefix(r.URL.Path, auditPath) && r.Method == http.MethodGet:
		return RoleAuditor
	case strings.HasPrefix(r.URL.Path, auditPath), strings.HasPrefix(r.URL.Path, "/admin/"):
		return RoleAdmin
	}
	return RoleUser
}

// admit counts a request of a tenant.
func (h *HermesX) admit(header http.Header, tenantID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	limit, ok := h.limits[tenantID]
	if !ok {
		limit = DefaultRateLimit
	}
	now := h.now()
	w, ok := h.windows[tenantID]
	if !ok || now.Sub(w.since) >= time.Minute {
		w = window{since: now}
	}
	admitted := w.count < limit
	if admitted {
		w.count++
	}
	h.windows[tenantID] = w
	header.Set("X-RateLimit-Limit", strconv.Itoa(limit))
	header.Set("X-RateLimit-Remaining", strconv.Itoa(limit-w.count))
	return admitted
}

func (h *HermesX) serveReceipts(w http.ResponseWriter, r *http.Request, key Key) {
	id := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, receiptsPath), "/")
	switch {
	case r.Method != http.MethodGet:
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	case id == "":
		h.listReceipts(w, r, key)
	default:
		h.getReceipt(w, id, key)
	}
}

func (h *HermesX) getReceipt(w http.ResponseWriter, id string, key Key) {
	if receipt, ok := h.receipt(canonical(id), key); ok {
		write(w, receipt)
	} else {
		http.Error(w, "not found", http.StatusNotFound)
	}
}

func (h *HermesX) receipt(id string, key Key) (Receipt, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, receipt := range h.receipts {
		if !h.databaseDown && !h.rowsHidden && receipt.TenantID == key.TenantID && receipt.ID == id {
			return h.located(receipt), true
		}
	}
	return Receipt{}, false
}

func (h *HermesX) listReceipts(w http.ResponseWriter, r *http.Request, key Key) {
	query := r.URL.Query()
	limit, offset := 50, 0
	if n, err := strconv.Atoi(query.Get("limit")); err == nil && n > 0 {
		limit = n
	}
	if n, err := strconv.Atoi(query.Get("offset")); err == nil && n >= 0 {
		offset = n
	}
	filters := [3]string{query.Get("session_id"), query.Get("tool_name"), query.Get("status")}
	page, total, ok := selectPage(h, r, func() []Receipt { return h.receipts }, func(receipt *Receipt) bool {
		for i, value := range [3]string{receipt.SessionID, receipt.ToolName, receipt.Status} {
			if filters[i] != "" && filters[i] != value {
				return false
			}
		}
		return receipt.TenantID == key.TenantID
	}, func(receipt *Receipt) time.Time { return receipt.CreatedAt }, limit, offset)
	if !ok || slices.ContainsFunc(filters[:], func(filter string) bool { return !storable(filter) }) {
		http.Error(w, "list failed", http.StatusInternalServerError)
		return
	}
	for i := range page {
		page[i] = h.located(page[i])
	}
	write(w, map[string]any{"execution_receipts": page, "total": total})
}

func (h *HermesX) serveAudit(w http.ResponseWriter, r *http.Request, key Key) {
	if r.Method != http.MethodGet {
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	query := r.URL.Query()
	limit, _ := strconv.Atoi(query.Get("limit"))
	if limit <= 0 || limit > 100 {
		limit = 50
	}
	offset, _ := strconv.Atoi(query.Get("offset"))
	var bounds [2]time.Time
	for i, name := range []string{"from", "to"} {
		if text := query.Get(name); text != "" {
			var err error
			if bounds[i], err = time.Parse(time.RFC3339, text); err != nil {
				http.Error(w, "invalid '"+name+"' parameter: use RFC3339 format", http.StatusBadRequest)
				return
			}
			bounds[i] = bounds[i].Round(time.Microsecond) // as the database does
		}
	}
	action, from, to := query.Get("action"), bounds[0], bounds[1]
	page, total, ok := selectPage(h, r, func() []AuditEntry { return h.entries }, func(entry *AuditEntry) bool {
		return entry.TenantID == key.TenantID &&
			(action == "" || entry.Action == action) &&
			(from.IsZero() || !entry.CreatedAt.Before(from)) &&
			(to.IsZero() || entry.CreatedAt.Before(to))
	}, func(entry *AuditEntry) time.Time { return entry.CreatedAt }, limit, offset)
	if !ok || offset < 0 || !storable(action) || slices.ContainsFunc(page, func(e AuditEntry) bool { return e.Damaged }) {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	for i := range page {
		page[i].CreatedAt = page[i].CreatedAt.In(h.location)
	}
	write(w, map[string]any{"audit_logs": page, "limit": limit, "offset": offset, "total": total})
}

// selectPage counts the rows that fit and then selects a page of them, in two
// statements between which others may write. The page is nil, which is null in
// JSON, where it has no rows; not ok says that the database is down.
func selectPage[T any](h *HermesX, r *http.Request, table func() []T, fits func(*T) bool, at func(*T) time.Time, limit, offset int) (page []T, total int, ok bool) {
	counted, ok := matching(h, table, fits)
	h.mu.Lock()
	between := h.between
	h.mu.Unlock()
	if between != nil {
		between(r)
	}
	rows, stillOK := matching(h, table, fits)
	newestFirst(rows, at)
	if offset >= 0 && offset < len(rows) {
		rows = rows[offset:]
		for _, row := range rows[:min(limit, len(rows))] {
			page = append(page, *row)
		}
	}
	return page, len(counted), ok && stillOK
}

// matching gives the rows that fit, the last stored first; not ok says that the
// database is down. A row that is stored does not change.
func matching[T any](h *HermesX, table func() []T, fits func(*T) bool) (rows []*T, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rowsHidden {
		return nil, !h.databaseDown
	}
	all := table()
	for i := len(all) - 1; i >= 0; i-- {
		if fits(&all[i]) {
			rows = append(rows, &all[i])
		}
	}
	return rows, !h.databaseDown
}

// located gives a receipt with the server's own offset.
func (h *HermesX) located(r Receipt) Receipt {
	r.CreatedAt = r.CreatedAt.In(h.location)
	return r
}

// newestFirst sorts by time alone: what is of the same time is in another order
// with each request.
func newestFirst[T any](rows []*T, at func(*T) time.Time) {
	newer := func(a, b *T) int { return at(b).Compare(at(a)) }
	if !slices.IsSortedFunc(rows, newer) {
		slices.SortStableFunc(rows, newer)
	}
	for from := 0; from < len(rows); {
		to := from + 1
		for to < len(rows) && at(rows[to]).Equal(at(rows[from])) {
			to++
		}
		same := rows[from:to]
		rand.Shuffle(len(same), func(i, j int) { same[i], same[j] = same[j], same[i] })
		from = to
	}
}

func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
