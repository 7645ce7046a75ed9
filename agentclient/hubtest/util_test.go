package hubtest_test

import "time"

const (
	minute = time.Minute
	hour   = time.Hour
)
