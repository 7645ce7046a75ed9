package boundary

import (
	"net/http"
	"strconv"
)

// RateLimit is a server's rate limit: Limit is how many requests it accepts in one
// window of time, and Remaining how many it still accepts in the current window.
// The zero value means that the answer named no limit.
type RateLimit struct{ Limit, Remaining int }

// rateLimit reads the two X-RateLimit headers. It gives the zero value where one
// is missing or they contradict each other.
func rateLimit(header http.Header) RateLimit {
	limit, err := strconv.Atoi(header.Get("X-Ratelimit-Limit"))
	if err != nil || limit < 1 {
		return RateLimit{}
	}
	remaining, err := strconv.Atoi(header.Get("X-Ratelimit-Remaining"))
	if err != nil || remaining < 0 || remaining > limit {
		return RateLimit{}
	}
	return RateLimit{limit, remaining}
}
