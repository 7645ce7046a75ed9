// Package sqldb is what a store and a journal in a database share: the dialects
// of SQL, statements that are tried again over lost connections and failovers,
// and tables that are made by one process of many.
//
// It uses database/sql alone and knows no driver.
package sqldb
