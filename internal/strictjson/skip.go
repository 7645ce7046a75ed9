//go:build !goexperiment.jsonv2 || go1.27

package strictjson

import "errors"

// skip says that a function of [json.WithUnmarshalers] leaves a value to the
// rest.
var skip = errors.ErrUnsupported
