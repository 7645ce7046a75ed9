package identifier_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/bailinghub/bailinghub-go/internal/identifier"
)

func TestIdentifiers(t *testing.T) {
	t.Parallel()
	hex32 := strings.Repeat("0123456789abcdef", 2)
	hex64 := strings.Repeat("0123456789abcdef", 4)
	tests := []struct {
		name      string
		is        func(string) bool
		good, bad []string
	}{
		{"InvocationID", identifier.InvocationID,
			[]string{hex64},
			[]string{"", hex64[1:], hex64 + "0", hex64 + "\n", " " + hex64[1:], strings.ToUpper(hex64), hex64[1:] + "g", "0x" + hex64[2:], hex64[:62] + "é"}},
		{"UUID", identifier.UUID,
			[]string{
				"22222222-2222-4222-8222-222222222222", "ABCDEF01-2345-1678-9ABC-DEF012345678", "abcdef01-2345-5678-babc-def012345678",
				"abcdef01-2345-5678-Aabc-def012345678", "abcdef01-2345-3678-Babc-def012345678",
			},
			[]string{
				"", "22222222-2222-0222-8222-222222222222", "22222222-2222-6222-8222-222222222222", "22222222-2222-4222-7222-222222222222", "22222222-2222-4222-c222-222222222222",
				"22222222222242228222222222222222", "22222222-2222-4222-8222-22222222222g", "22222222-2222-4222-8222-2222222222222", "{2222222-2222-4222-8222-22222222222}",
				"22222222-2222-4222-8222_222222222222", "22222222-2222-4222-8222-222222222222\n", "G2222222-2222-4222-8222-222222222222", "2222222--2222-4222-8222-222222222222",
			}},
		{"Workspace", identifier.Workspace,
			[]string{"inventory", "a1", "0x", "a-", "a_", "autos", strings.Repeat("x", 64)},
			[]string{"", "auto", "a", "A1", "-x", "_x", "in.ventory", "in ventory", " inventory", "inventory\n", "库存", "a\x00", strings.Repeat("x", 65)}},
		{"ClientAppID", identifier.ClientAppID,
			[]string{"commerce-agent", "auto", "a1", "0_", strings.Repeat("x", 64)},
			[]string{"", "a", "A1", "-x", "_x", "x/y", "inventory\n", strings.Repeat("x", 65)}},
		{"Tool", identifier.Tool,
			[]string{"product_update", "A", "_", "_1", "z9", strings.Repeat("x", 64)},
			[]string{"", "1a", "a-b", "a.b", "a ", "工具", "a\n", "@", "[", "`", "{", strings.Repeat("x", 65)}},
		{"ConnectionKey", identifier.ConnectionKey,
			[]string{"conn_" + hex32},
			[]string{"", "conn_", hex32, "conn_" + hex32[1:], "conn_" + hex32 + "0", "Conn_" + hex32, "conn_" + strings.ToUpper(hex32), "conn_" + hex32 + "\n", "instance_" + hex32, "conn-" + hex32, "conn_../" + hex32[3:]}},
		{"InstanceID", identifier.InstanceID,
			[]string{"instance_" + hex32},
			[]string{"", "instance_", "instance_" + hex32[1:], "instance_" + hex32 + "0", "instance_" + strings.ToUpper(hex32), "conn_" + hex32}},
		{"RequestID", identifier.RequestID,
			[]string{"a", "-", "_", "demo-agent-first-001", "ABCxyz_019", strings.Repeat("r", 64)},
			[]string{"", "bad.id:1", "a b", "a\n", "a/b", "请求", "@", "[", "`", "{", "a\x7f", strings.Repeat("r", 65)}},
		{"Alias", identifier.Alias,
			[]string{
				"a", "shop", "plain http", "库存", "a\u0085", "\u0090b", "a\u202eb", "conn_" + hex32, strings.Repeat("x", 128), strings.Repeat("库", 128), strings.Repeat("😀", 64),
				"a\u00a0b", "-", "\u200b",
			},
			[]string{
				"", " ", " a", "a ", "\ta", "a\n", "a\nb", "a\x00b", "a\x7fb", "\u00a0a", "a\u3000", "a\ufeff", "\u2028a", "a\u2029", "a\xff", "\xffa", strings.Repeat("x", 129), strings.Repeat("库", 129),
				strings.Repeat("😀", 64) + "x", strings.Repeat("\xff", 3),
			}},
		{"NewAlias", identifier.NewAlias,
			[]string{"a", "shop", "库存", "conn_1", "a\u200db", strings.Repeat("😀", 64)},
			[]string{"", " a", "a\n", "conn_" + hex32, "a\u0085b", "a\u009f", "\u0080", "a\u202eb", "a\u061cb", "\u200ea", "a\u200f", "a\u2066", "a\u2069", "a\u202a", strings.Repeat("x", 129)}},
		{"BearerToken", identifier.BearerToken,
			[]string{"a", "!~", `<"\>`, "eyJhbGciOi.J9-_=", strings.Repeat("x", 8192)},
			[]string{"", " ", "a b", " a", "a\n", "a\x00", "a\x7f", "é", "令牌", "a\xff", strings.Repeat("x", 8193)}},
	}
	for _, test := range tests {
		for _, s := range test.good {
			if !test.is(s) {
				t.Errorf("%s(%q) = false", test.name, s)
			}
		}
		for _, s := range test.bad {
			if test.is(s) {
				t.Errorf("%s(%q) = true", test.name, s)
			}
		}
	}
}

func TestUTF16Len(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int{"": 0, "a": 1, "库存": 2, "😀": 2, "a\xffb": 3, "\ufffd": 1, "\uffff": 1, "\U00010000": 2} {
		if got := identifier.UTF16Len(s); got != want {
			t.Errorf("UTF16Len(%q) = %d, want %d", s, got, want)
		}
	}
}

func TestVectors(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../testdata/registry.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Routes []struct {
			Workspace string
			Error     bool
		}
		ClientAppIDs []struct {
			ID    string `json:"client_app_id"`
			Error bool
		} `json:"client_app_ids"`
		InstanceKeys []struct {
			InstanceID string `json:"connection_instance_id"`
			Key        string `json:"connection_key"`
		} `json:"instance_keys"`
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors.Routes) == 0 || len(vectors.ClientAppIDs) == 0 || len(vectors.InstanceKeys) == 0 {
		t.Fatal("the vectors are empty")
	}
	for _, v := range vectors.Routes {
		if got := identifier.Workspace(v.Workspace); got == v.Error {
			t.Errorf("Workspace(%q) = %t", v.Workspace, got)
		}
	}
	for _, v := range vectors.ClientAppIDs {
		if got := identifier.ClientAppID(v.ID); got == v.Error {
			t.Errorf("ClientAppID(%q) = %t", v.ID, got)
		}
	}
	for _, v := range vectors.InstanceKeys {
		if !identifier.InstanceID(v.InstanceID) || !identifier.ConnectionKey(v.Key) {
			t.Errorf("InstanceID(%q) or ConnectionKey(%q) = false", v.InstanceID, v.Key)
		}
	}
}
