package boundary

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"
)

// RetryAfter reads a Retry-After header (RFC 9110, section 10.2.3), which has
// seconds or a date. It gives 0 for any other form and for a date in the past,
// and the greatest Duration where the value does not fit.
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
