//go:build goexperiment.jsonv2 && !go1.27

package strictjson

import "encoding/json/v2"

// skip is a variable of its own in the encoding/json/v2 experiment of Go 1.26,
// which the json module stands for in such a build.
var skip = json.SkipFunc
