package boundary

import (
	"net/http"
	"strconv"
)

// RateLimit is how many requests a server takes in one window of its rate
// limit, and how many of them it still takes in the current one. The zero value
// says nothing.
type RateLimit struct{ Limit, Remaining int }

// rateLimit reads the two X-RateLimit headers. Where one of them is missing, or
// they contradict each other, they say nothing.
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
