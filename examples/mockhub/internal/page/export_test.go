package page

// PrintableJSON is here for the tests.
var PrintableJSON = printableJSON
