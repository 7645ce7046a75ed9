package hermesx

import (
	"context"

	"github.com/bailinghub/bailinghub-go/agentclient/internal/inspection"
	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/failures"
)

// ReceiptPage is one page of receipts.
type ReceiptPage struct {
	// Receipts are in the server's order: the newest first, and in any order
	// where they were stored at the same time.
	Receipts []*Receipt
	// Total is how many receipts fit the filters, on all pages.
	Total int
	// RequestID is what the server calls the request that read the page; ""
	// where it did not say.
	RequestID string
}

// AuditPage is one page of audit entries.
type AuditPage struct {
	// Entries are in the server's order: the newest first, and in any order
	// where they were written at the same time.
	Entries []*AuditEntry
	// Limit and Offset are what the server went by.
	Limit, Offset int
	// Total is how many entries fit the query, on all pages.
	Total int
	// RequestID is what the server calls the request that read the page; ""
	// where it did not say.
	RequestID string
}

// Receipts reads one page of receipts.
//
// Rows move between pages while they are read: new ones come in at the front,
// and those stored at the same time change places from request to request. To
// see all of them use [Client.AllReceipts].
func (c *Client) Receipts(ctx context.Context, query ReceiptQuery) (*ReceiptPage, error) {
	encoded, invalid := query.encode()
	if invalid != nil {
		return nil, invalid
	}
	page := &ReceiptPage{}
	err := c.ask(ctx, inspection.Question{Step: failures.ExecutionList, Path: boundary.ExecutionReceiptsPath, Query: encoded}, func(body []byte, requestID string) error {
		page.RequestID = requestID
		if err := decode(body, page); err != nil {
			return err
		}
		for _, receipt := range page.Receipts {
			if receipt.ReadRequestID = requestID; !query.fits(receipt) {
				return errFilter
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// AuditLogs reads one page of audit entries.
//
// Reading is logged as well: the list grows by one entry with each call. To see
// all entries use [Client.AllAuditLogs].
func (c *Client) AuditLogs(ctx context.Context, query AuditQuery) (*AuditPage, error) {
	encoded, invalid := query.encode()
	if invalid != nil {
		return nil, invalid
	}
	page := &AuditPage{}
	err := c.ask(ctx, inspection.Question{Step: failures.ExecutionList, Path: boundary.AuditLogsPath, Query: encoded}, func(body []byte, requestID string) error {
		page.RequestID = requestID
		if err := decode(body, page); err != nil {
			return err
		}
		for _, entry := range page.Entries {
			if entry.ReadRequestID = requestID; !query.fits(entry) {
				return errFilter
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

const errFilter flaw = "has a row that the filters of the request leave out"

func (p *ReceiptPage) name() string   { return "a page" }
func (p *ReceiptPage) required() uint { return 1<<2 - 1 }

func (p *ReceiptPage) member(name string) (into any, bit uint) {
	switch name {
	case "execution_receipts":
		return list(&p.Receipts), 1 << 0
	case "total":
		return &p.Total, 1 << 1
	}
	return nil, 0
}

func (p *AuditPage) name() string   { return "a page" }
func (p *AuditPage) required() uint { return 1<<4 - 1 }

func (p *AuditPage) member(name string) (into any, bit uint) {
	switch name {
	case "audit_logs":
		return list(&p.Entries), 1 << 0
	case "limit":
		return &p.Limit, 1 << 1
	case "offset":
		return &p.Offset, 1 << 2
	case "total":
		return &p.Total, 1 << 3
	}
	return nil, 0
}
