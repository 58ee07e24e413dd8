package search

import (
	"strings"
	"sync"
)

// abbreviations maps abbreviations to words, in functions and queries alike.
var abbreviations = parsePairs(`admin administrator  apis api  app application  apps application  arg argument  args argument
	auth authentication  config configuration  configs configuration  db database  dbs database  del delete  dir directory  dirs directory
	doc document  docs document  env environment  envs environment  info information  ls list  msg message  msgs message
	org organization  organisation organization  orgs organization  param parameter  params parameter  perm permission
	perms permission  pr pull  prs pull  re2 regular  regex regular  regexp regular  repo repository  repos repository
	rm delete  var variable  vars variable`)

// parsePairs returns a map of words from a list of alternating keys and values.
func parsePairs(text string) map[string]string {
	words := strings.Fields(text)
	all := make(map[string]string, len(words)/2)
	for i := 0; i+1 < len(words); i += 2 {
		all[words[i]] = words[i+1]
	}
	return all
}

// synonyms has synonyms on each line: each word of a line also finds, with less weight, what the other words of that line find. They are
// verbs and nouns that people use in place of those in interfaces; none is specific to one service.
const synonyms = `
create add new make open insert post register
delete remove drop destroy erase discard
get fetch retrieve show read view display obtain download
list all enumerate every show
search find lookup query
update edit change modify patch set alter
replace set put overwrite write
run execute start launch
stop cancel abort end kill terminate
copy duplicate clone
move rename
send post submit
directory folder
user person people member account
message mail
configuration setting option preference
image picture photo
authenticated i me my mine am current whoami
authentication login
webhook hook
information details
workflow ci pipeline
website site web
expression formula calculate compute
file document
`

// synonymStems maps the stem of a word to the stems of its synonyms.
var synonymStems = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{}
	for line := range strings.Lines(synonyms) {
		group := strings.Fields(line)
		for _, word := range group {
			for _, other := range group {
				if other != word {
					all[stem(word)] = append(all[stem(word)], stem(other))
				}
			}
		}
	}
	return all
})

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(text) {
		set[word] = true
	}
	return set
}

// stopWords are ignored in a query, unless it has no other words.
var stopWords = wordSet(`a an the this that these those it its of to in on at by for from with within into onto as is are be was been do does
	can could should would will shall may might must please want need how what when where there here and or but if so some any
	very just         use using via per than then about you your we us our they them their he she his her`)
