//! Words without a topic: function words, and what fills speech.

use std::collections::HashSet;

const ENGLISH: &str = "a about above actually after again against all almost already also although always am an and another any \
    anybody anyone anything anyway are around as at away back basically be because been before being below between bit both but \
    by can cannot come could course did different do does doing don done down during each either else enough er even ever every \
    everybody everyone everything exactly far few find first for from get gets getting give go goes going gone gonna good got \
    gotta had has have having he hello her here hers herself him himself his hmm how however huh i if in instead into is it its \
    itself just keep kind kinda know last least less let like little long look looking lot lots made make makes making many may \
    maybe me mean means might mine mm mm-hmm mmm more most much must my myself need never new next no nobody none nor not nothing now of \
    off oh ok okay on once one ones only onto or other others otherwise ought our ours ourselves out over own part people per \
    perhaps please point possible pretty probably put quite rather really right said same saw say saying says see seem seems seen \
    several shall she should since so some somebody somehow someone something sometimes somewhat sort still stuff such sure take \
    taken talk talking tell than thank thanks that the their theirs them themselves then there these they thing things think \
    thinking this those though three through time to together too took towards trying try two uh uh-huh um under unless until up upon us \
    use used using very wanna want wanted wants was way ways we well went were what whatever when where whether which while who \
    whole whom whose why will with within without work would yeah yep yes yet you your yours yourself big bunch \
    check couple day days definitely eight end example fifty fifteen fine five forty four go guess guy guys happen happened help hey \
    hope hundred idea kinds left love maybe minute minutes months nice nine number obviously onto question questions ready remember \
    run second seven show six sixty sorry sounds start started ten thirteen thirty thousand today tomorrow turn twelve twenty wait \
    week weeks whatever wonder year years yesterday zero";

const GERMAN: &str = "aber alle allem allen aller alles als also am an ander andere anderen auch auf aus bei beim bin bis bist da \
    dabei dadurch daher damit danach dann daran darauf darum das dass davon dazu dein deine dem den denen denn der deren des \
    deshalb die dies diese diesem diesen dieser dieses doch dort du durch eben ein eine einem einen einer eines einfach einige \
    einmal er es etwa etwas euch euer für gar ganz genau gibt gut hab habe haben hallo hast hat hatte hatten her hier hin hinter \
    ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im immer in ins ist ja jede jedem jeden jeder jedes jetzt kann kannst kein keine \
    keinen können könnte machen macht mal man manche mehr mein meine meinem mich mir mit muss müssen nach nee nein nicht nichts \
    noch nun nur ob oder ohne okay schon sehr sein seine seinem seinen seiner seit sich sie sind so soll sollen sollte sondern \
    sonst über um und uns unser unsere unter viel viele vielleicht vom von vor wann war waren warum was weil weiter welche welchen \
    welcher wenn wer werde werden weshalb wie wieder will wir wird wirklich wo wollen worden wurde wurden zu zum zur zwar zwischen \
    äh ähm";

const FRENCH: &str = "ai ainsi alors après as au aucun aussi autre autres aux avait avant avec avez avoir avons beaucoup ben bien bon \
    c ça ce cela celle celui ces cet cette ceux chaque chez comme comment d dans de des depuis deux dire dit donc dont du elle \
    elles en encore entre es est et étaient était étant été être eu euh eux faire fait faut font hein ici il ils j je jusque l la \
    là le les leur leurs lui m ma mais me même mes mien moi moins mon n ne ni non nos notre nous on ont ou où oui par parce pas \
    peu peut peux plus pour pourquoi puis qu quand que quel quelle quelles quels qui quoi s sa sans se sera ses si son sont sous \
    suis sur t ta te tes toi ton toujours tous tout toute toutes très tu un une va vais vers voilà vont vos votre vous vraiment y";

const SPANISH: &str = "a ahí ahora al algo algunas algunos allí ante antes así aunque bien bueno cada casi como cómo con contra creo \
    cual cuando de del desde después donde dos e el él ella ellas ellos en entonces entre era eran es esa esas ese eso esos está \
    estaba están estar estas este esto estos estoy fue fueron gracias gusta ha haber había hace hacer hacia han has hasta hay he \
    hola la las le les lo los luego más me mi mis mismo mucho muchos muy nada ni no nos nosotros nuestra nuestro o os otra otro \
    otros para pero poco por porque pues puede pueden que qué quien quiere se sea según ser si sí sido siempre sin sobre solo son \
    soy su sus también tan tanto te tener tengo ti tiene tienen toda todas todo todos tu tus un una uno unos usted ustedes va vale \
    vamos van ver vez y ya yo";

const ITALIAN: &str = "a abbiamo adesso ai al alla alle allo allora altre altri altro anche ancora avere aveva avevano bene che chi ci \
    ciao cioè come con così cosa cui da dal dalla dalle dei del della delle dello di dire dopo dove due e ecco ed è era erano essere \
    fa fare fatto già gli ha hai hanno ho i il in insomma io l la le lei li lo loro lui ma me mi mia mio molto ne nei nel nella \
    nelle noi non nostra nostro o ogni oggi per perché però più poi prima proprio può qua qualche quale quando quella quelle quelli \
    quello questa queste questi questo qui quindi sarà se sei sempre senza si sì sia siamo sono sta stata stato su sua sue sul sulla \
    suo suoi ti tra tu tutta tutte tutti tutto un una uno va voi vostro";

const PORTUGUESE: &str = "a à agora aí ainda algo alguma algumas alguns ao aos aquela aquele aqui aquilo as às assim até bem bom cada \
    com como da das de dela dele deles depois desde dessa desse do dos e é ela elas ele eles em então entre era eram essa essas \
    esse esses esta está estão estar estas estava este estes estou eu faz fazer foi foram gente há isso isto já la lá lhe lo mais \
    mas me mesmo meu meus minha muito muitos na nada não nas nem no nos nós nossa nosso o obrigado onde os ou outra outro outros \
    para pela pelas pelo pelos pode podem por porque pouco pra qual quando que quem são se sem sempre ser será seu seus sim só sobre \
    sua suas também tão te tem têm tenho ter teu tinha toda todas todo todos tu tudo um uma umas uns vai vamos vão você vocês";

const DUTCH: &str = "aan al alle alleen als altijd andere ben bij daar dan dat de deze die dit doe doen door dus echt een eens eigenlijk \
    en er gaan gaat ge geen goed had hadden heb hebben heeft heel hem het hier hij hoe hun ik in is ja je jij jou jouw kan kunnen \
    laat maar mag me meer mee men met mij mijn moet moeten na naar nee niet niets nog nou nu of om omdat onder ons ook op over \
    precies te tegen toch toen tot tussen u uh uit uw van veel voor waar waren was wat we wel werd werden wie wij wil willen worden \
    wordt zal ze zeer zei zeg zich zij zijn zo zonder zou zouden";

/// The words without a topic in a language, by its primary subtag; empty for languages without a list.
pub(super) fn stop_words(language: &str) -> HashSet<&'static str> {
    let list = match language {
        "en" => ENGLISH,
        "de" => GERMAN,
        "fr" => FRENCH,
        "es" => SPANISH,
        "it" => ITALIAN,
        "pt" => PORTUGUESE,
        "nl" => DUTCH,
        _ => "",
    };
    list.split_whitespace().collect()
}
