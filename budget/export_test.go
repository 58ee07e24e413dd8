package budget

// LongestToken is for the test that compares it with the vocabulary.
const LongestToken = longestToken
