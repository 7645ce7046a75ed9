package boundary

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"
)

// RetryAfter reads a Retry-After header (RFC 9110, section 10.2.3): seconds or
// a date. What is not of that form, or lies in the past, asks for nothing; what
// overflows asks for the longest time there is.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	if value == "" {
		return 0
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(date.Sub(now), 0)
	}
	const most = math.MaxInt64 / uint64(time.Second)
	seconds, err := strconv.ParseUint(value, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return time.Duration(min(seconds, most)) * time.Second
}
