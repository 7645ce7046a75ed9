//go:build !goexperiment.jsonv2 || go1.27

package strictjson

import "errors"

// skip is the error by which a function of [json.WithUnmarshalers] leaves a value
// to the unmarshalers behind it.
var skip = errors.ErrUnsupported
