package hermesx

import (
	"context"
	"net/http"
	"time"

	"github.com/bailinghub/bailinghub-go/internal/boundary"
	"github.com/bailinghub/bailinghub-go/internal/failures"
	"github.com/bailinghub/bailinghub-go/internal/inspection"
)

// ReceiptPage is one page of receipts.
type ReceiptPage struct {
	// Receipts are in the server's order: the newest first, and in any order
	// where they were stored at the same time. Nil where there are none.
	Receipts []*Receipt
	// Total is how many receipts fit the filters, on all pages. The server counts
	// before it selects: rows that come in between are on the page and not
	// counted.
	Total int
	// RequestID is what the server calls the request that read the page; ""
	// where it did not say.
	RequestID string
}

// AuditPage is one page of audit entries.
type AuditPage struct {
	// Entries are in the server's order: the newest first, and in any order
	// where they were written at the same time. Nil where there are none.
	Entries []*AuditEntry
	// Limit and Offset are what the server went by.
	Limit, Offset int
	// Total is how many entries fit the query, on all pages, counted before the
	// page was selected.
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
	if query.Cursor != "" {
		return nil, inspection.Invalid("ReceiptQuery.Cursor goes with AllReceipts: a single page has none.")
	}
	page, _, err := c.receipts(ctx, query, false)
	return page, err
}

func (c *Client) receipts(ctx context.Context, query ReceiptQuery, once bool) (page *ReceiptPage, heard reply, err error) {
	encoded, invalid := query.encode()
	if invalid != nil {
		return nil, heard, invalid
	}
	page = &ReceiptPage{}
	err = c.ask(ctx, inspection.Question{Once: once, Step: failures.ExecutionList, Path: boundary.ExecutionReceiptsPath, Query: encoded}, func(got reply) error {
		heard, page.RequestID = got, got.RequestID
		if err := decode(got.Body, page); err != nil {
			return err
		}
		for _, receipt := range page.Receipts {
			if receipt.ReadRequestID = got.RequestID; !query.fits(receipt) {
				return errFilter
			}
		}
		return nil
	})
	if err != nil {
		return nil, heard, err
	}
	return page, heard, nil
}

// AuditLogs reads one page of audit entries.
//
// Reading is logged as well: the list grows by one entry with each call. To see
// all entries use [Client.AllAuditLogs].
func (c *Client) AuditLogs(ctx context.Context, query AuditQuery) (*AuditPage, error) {
	if query.Cursor != "" {
		return nil, inspection.Invalid("AuditQuery.Cursor goes with AllAuditLogs: a single page has none.")
	}
	page, _, err := c.auditLogs(ctx, query, false)
	return page, err
}

func (c *Client) auditLogs(ctx context.Context, query AuditQuery, once bool) (page *AuditPage, heard reply, err error) {
	encoded, invalid := query.encode()
	if invalid != nil {
		return nil, heard, invalid
	}
	page = &AuditPage{}
	err = c.ask(ctx, inspection.Question{Once: once, Step: failures.ExecutionList, Path: boundary.AuditLogsPath, Query: encoded}, func(got reply) error {
		heard, page.RequestID = got, got.RequestID
		if err := decode(got.Body, page); err != nil {
			return err
		}
		for _, entry := range page.Entries {
			if entry.ReadRequestID = got.RequestID; !query.fits(entry) {
				return errFilter
			}
		}
		return nil
	})
	if err != nil {
		return nil, heard, err
	}
	return page, heard, nil
}

// findInLog looks among the newest entries of the log for that of a request, or
// of one that it makes itself. An entry is written after its request was
// answered, so it is looked for a few times.
func (c *Client) findInLog(waits *waits, requestID string) (found bool, err error) {
	const tries, pause = 4, time.Second
	wanted := map[string]bool{requestID: requestID != ""}
	for try := range tries {
		if try > 1 && waits.ends(pause) && pause <= waits.settings.longestWait {
			if err := waits.wait(pause, false); err != nil {
				return false, err
			}
		}
		var newest *AuditPage
		var asked string
		err := waits.ask(func(once bool) (heard reply, err error) {
			newest, heard, err = c.auditLogs(waits.ctx, AuditQuery{Action: readingAction, Limit: AuditPageLimit}, once)
			asked = heard.loggedID()
			return heard, err
		})
		if err != nil {
			return false, err
		}
		for _, entry := range newest.Entries {
			if wanted[entry.RequestID] {
				return true, nil
			}
		}
		wanted[asked] = asked != ""
	}
	return false, nil
}

// readingAction is what a server's log has as the action of a request for a page
// of the log.
const readingAction = http.MethodGet + " " + boundary.AuditLogsPath

const errFilter flaw = "has a row that the filters of the request leave out"

func (p *ReceiptPage) name() string   { return "a page" }
func (p *ReceiptPage) required() uint { return 1<<2 - 1 }

func (p *ReceiptPage) member(name string) (into any, bit uint) {
	switch name {
	case "execution_receipts":
		return arrayOf(&p.Receipts), 1 << 0
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
		return arrayOf(&p.Entries), 1 << 0
	case "limit":
		return &p.Limit, 1 << 1
	case "offset":
		return &p.Offset, 1 << 2
	case "total":
		return &p.Total, 1 << 3
	}
	return nil, 0
}
