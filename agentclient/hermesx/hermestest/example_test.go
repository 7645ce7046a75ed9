package hermestest_test

import (
	"fmt"
	"net/http"

	"github.com/bailinghub/bailinghub-go/agentclient/hermesx/hermestest"
)

func ExampleHermesX_Execute() {
	server := hermestest.New()
	defer server.Close()
	refund := hermestest.Call{
		SessionID:     "sess_1",
		Tool:          "refund",
		Input:         map[string]any{"order": 17},
		Output:        `{"refunded":true}`,
		IdempotencyID: "order-17/refund",
	}
	first, second := server.Execute(refund), server.Execute(refund)
	fmt.Println("first: ran", first.Ran)
	fmt.Println("second: ran", second.Ran, "- same receipt", second.Receipt.ID == first.Receipt.ID)
	// Output:
	// first: ran true
	// second: ran false - same receipt true
}

func ExampleHermesX_Start() {
	server := hermestest.New().Start()
	defer server.Close()
	key := server.AddKey(hermestest.Key{Roles: []string{hermestest.RoleAuditor}})

	request, _ := http.NewRequest(http.MethodGet, server.URL+"/v1/execution-receipts", nil)
	request.Header.Set("Authorization", "Bearer "+key.Secret)
	response, err := server.Client().Do(request)
	if err != nil {
		fmt.Println(err)
		return
	}
	response.Body.Close()
	fmt.Println(response.Status, server.Requests())
	// Output: 200 OK [GET /v1/execution-receipts]
}

// An auditor's program is tested with a rate limit that is nearly used up.
func ExampleHermesX_SetRateLimit() {
	server := hermestest.New().Start()
	defer server.Close()
	key := server.AddKey(hermestest.Key{Roles: []string{hermestest.RoleAuditor}})
	server.SetRateLimit(key.TenantID, 1)

	for range 2 {
		request, _ := http.NewRequest(http.MethodGet, server.URL+"/v1/audit-logs", nil)
		request.Header.Set("Authorization", "Bearer "+key.Secret)
		response, err := server.Client().Do(request)
		if err != nil {
			fmt.Println(err)
			return
		}
		response.Body.Close()
		fmt.Printf("%d, %s left, wait %q\n", response.StatusCode, response.Header.Get("X-RateLimit-Remaining"), response.Header.Get("Retry-After"))
	}
	// Output:
	// 200, 0 left, wait ""
	// 429, 0 left, wait "60"
}
